"""Opening a file as its one writer: its lock, its key, its first token, and who may read what lies beside it."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.errors import Conflict, Corrupt, Invalid
from appliance.opening import default_path, open_file
from appliance.store import tokens

HOLD = """
import sys
from appliance.opening import open_file
opened = open_file(sys.argv[1], "appliance serve on 127.0.0.1:8642")
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def opened(path):
    it = open_file(str(path), "a test")
    try:
        yield it
    finally:
        it.close()


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.fixture
def holder(tmp_path):
    """Another process that serves the file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lab.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.communicate()


def test_a_new_file_has_epoch_1_a_key_and_one_admin_token_that_is_stored_hashed(tmp_path):
    with opened(tmp_path / "lab.db") as it:
        assert it.row.epoch_number == 1
        assert it.row.key_id == it.key.id
        token = it.database.read(tokens.by_secret, it.admin_token)
        assert (token.role, token.expires_at) == ("admin", None)
        secret = it.admin_token.encode()
    for path in tmp_path.iterdir():
        assert secret not in path.read_bytes(), path


def test_opening_again_makes_nothing_new(tmp_path):
    with opened(tmp_path / "lab.db") as it:
        first = it.row, it.key
    with opened(tmp_path / "lab.db") as it:
        assert (it.row, it.key) == first
        assert it.admin_token is None
        assert len(it.database.read(tokens.every)) == 1


def test_sec_02_everything_is_for_the_owner_alone_whatever_the_umask(tmp_path):
    with umask(0), opened(tmp_path / "new" / "deep" / "lab.db"):
        pass
    with umask(0), opened(tmp_path / "new" / "deep" / "lab.db") as it:
        it.database.write(lambda tx: tx.touch("x"))
        found = modes(tmp_path / "new" / "deep")
        assert found.keys() >= {"lab.db", "lab.db-wal", "lab.db-shm", "lab.db.key", "lab.db.lock"}
        assert set(found.values()) == {0o600}, found
    assert stat.S_IMODE((tmp_path / "new" / "deep").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_sec_02_the_modes_of_files_that_others_could_read_are_mended(tmp_path):
    with opened(tmp_path / "lab.db"):
        pass
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    with opened(tmp_path / "lab.db") as it:
        it.database.write(lambda tx: tx.touch("x"))
        assert set(modes(tmp_path).values()) == {0o600}, modes(tmp_path)


def test_the_umask_of_the_process_is_put_back(tmp_path):
    with umask(0o027):
        with opened(tmp_path / "lab.db"):
            pass
        assert os.umask(0o027) == 0o027


def test_a_file_that_is_served_is_refused_naming_by_whom_and_since_when(tmp_path, holder):
    with pytest.raises(Conflict) as caught:
        open_file(str(tmp_path / "lab.db"), "a test")
    said = caught.value.message
    assert said.startswith(f"{tmp_path / 'lab.db'} is already served by appliance serve on 127.0.0.1:8642, pid {holder.pid}, since 2")
    assert re.search(r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", said)
    assert caught.value.hint


def test_a_file_whose_server_was_killed_is_free_at_once(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with opened(tmp_path / "lab.db") as it:
        assert it.admin_token is None


def test_a_refused_opening_leaves_the_lock_to_its_holder(tmp_path, holder):
    for _ in range(2):
        with pytest.raises(Conflict, match=f"pid {holder.pid}"):
            open_file(str(tmp_path / "lab.db"), "a test")


def test_a_file_without_its_key_is_refused_and_no_new_key_is_made(tmp_path):
    with opened(tmp_path / "lab.db"):
        pass
    (tmp_path / "lab.db.key").rename(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match=r"lab\.db\.key is missing") as caught:
        open_file(str(tmp_path / "lab.db"), "a test")
    assert "backup" in caught.value.hint
    assert not (tmp_path / "lab.db.key").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "lab.db.key")
    with opened(tmp_path / "lab.db"):
        pass


def test_a_file_with_the_key_of_another_is_refused(tmp_path):
    for name in ("a.db", "b.db"):
        with opened(tmp_path / name):
            pass
    (tmp_path / "a.db.key").write_bytes((tmp_path / "b.db.key").read_bytes())
    with pytest.raises(Conflict, match="is the key of another database"):
        open_file(str(tmp_path / "a.db"), "a test")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"id": "x", "mac": "zz", "seal": "00"}', b'{"id": 1, "mac": "00", "seal": "00"}']
    + [json.dumps({"id": "x", "mac": "00" * n, "seal": "00" * m}).encode() for n, m in ((31, 32), (32, 16), (0, 32))],
)
def test_a_damaged_key_is_refused_and_left_as_it_is(tmp_path, content):
    with opened(tmp_path / "lab.db"):
        pass
    (tmp_path / "lab.db.key").write_bytes(content)
    with pytest.raises(Corrupt, match="is not a key file"):
        open_file(str(tmp_path / "lab.db"), "a test")
    assert (tmp_path / "lab.db.key").read_bytes() == content


def test_a_birth_that_was_cut_short_between_key_and_first_row_is_finished(tmp_path):
    with opened(tmp_path / "lab.db") as it:
        key = it.key
        it.database.write(lambda tx: [tx.execute(f"DELETE FROM {table}") for table in ("token", "file", "audit")])
    with opened(tmp_path / "lab.db") as it:
        assert it.key == key
        assert it.admin_token is not None


def test_every_refusal_frees_the_lock_and_leaves_what_is_not_ours_as_it_is(tmp_path):
    path = tmp_path / "lab.db"
    path.write_bytes(b"not a database " * 100)
    path.chmod(0o644)
    for _ in range(2):
        with pytest.raises(Invalid, match="is not a database"):
            open_file(str(path), "a test")
    assert path.read_bytes() == b"not a database " * 100
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert not (tmp_path / "lab.db.key").exists()


def test_what_was_left_of_an_upload_is_removed_at_the_start(tmp_path):
    with opened(tmp_path / "lab.db") as it:
        it.database.write(lambda tx: tx.execute("INSERT INTO large (id, size) VALUES (7, 10)"))
    with opened(tmp_path / "lab.db") as it:
        assert it.database.read(lambda tx: tx.value("SELECT count(*) FROM large")) == 0


def test_a_directory_in_place_of_the_file_is_one_clear_error(tmp_path):
    (tmp_path / "lab.db").mkdir()
    with pytest.raises(Invalid, match="is a directory") as caught:
        open_file(str(tmp_path / "lab.db"), "a test")
    assert caught.value.hint


def test_a_link_to_a_file_that_is_served_leads_to_the_same_lock_and_key(tmp_path, holder):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "link.db").symlink_to(tmp_path / "lab.db")
    with pytest.raises(Conflict, match=f"pid {holder.pid}"):
        open_file(str(tmp_path / "there" / "link.db"), "a test")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["link.db"]


def test_a_directory_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="cannot be made") as caught:
        open_file(str(tmp_path / "file" / "lab.db"), "a test")
    assert "--db" in caught.value.hint


def test_the_default_file_is_the_systems_for_root_and_the_users_else(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/home/ann/data")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_path() == "/home/ann/data/appliance/lab.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_path() == "/home/ann/.local/share/appliance/lab.db"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_path() == "/var/lib/appliance/lab.db"


def test_a_file_is_found_by_a_relative_path_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(Path("lab.db")) as it:
        token = it.admin_token
    assert token
    assert sorted(path.name for path in tmp_path.iterdir() if "lock" not in path.name) == ["lab.db", "lab.db.key"]
