"""Archives: what is read, what is refused, and that equal plans give equal bytes."""

import gzip
import io
import subprocess
import tarfile

import pytest
import zstandard

from appliance import archive, compression
from appliance.archive import Limits
from appliance.errors import ApplianceError, Invalid, TooLarge

LONG = "d" * 90 + "/" + "e" * 90 + "/" + "f" * 200


def made(*members, format=tarfile.PAX_FORMAT, **extra) -> bytes:
    """A tar by Python's own tarfile: (name, content or None, attributes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, **extra) as tar:
        for name, content, attributes in members:
            info = tarfile.TarInfo(name)
            for key, value in attributes.items():
                setattr(info, key, value)
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def contents(raw: bytes, limits: Limits = Limits()) -> dict:  # noqa: B008 - immutable
    format = compression.format_of(raw)
    source = io.BytesIO(raw)
    stream = source if format == "tar" else compression.Unpacked(source, format)
    return {member.path: (member.mode, b"".join(content.chunks())) for member, content in archive.members(stream, limits)}


GOOD = (
    ("./", None, {"type": tarfile.DIRTYPE}),
    ("./a", b"one\n", {}),
    ("./bin/run", b"#!/bin/sh\n", {"mode": 0o755}),
    ("./bin/link", None, {"type": tarfile.SYMTYPE, "linkname": "../a"}),
    ("ä/ß", b"", {}),
    (LONG, b"x" * 1000, {}),
)
EXPECTED = {
    "a": ("file", b"one\n"),
    "bin/run": ("executable", b"#!/bin/sh\n"),
    "bin/link": ("symlink", b"../a"),
    "ä/ß": ("file", b""),
    LONG: ("file", b"x" * 1000),
}


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_archives_of_other_programs_are_read(format, pack):
    assert contents(pack(made(*GOOD, format=format))) == EXPECTED


def test_a_ustar_prefix_is_read():
    name = "p" * 90 + "/" + "n" * 90
    assert list(contents(made((name, b"x", {}), format=tarfile.USTAR_FORMAT))) == [name]


def test_what_gnu_tar_makes_is_read(tmp_path):
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "sub" / ("n" * 180)).write_bytes(b"long")
    (tmp_path / "t" / "run").write_bytes(b"x")
    (tmp_path / "t" / "run").chmod(0o755)
    (tmp_path / "t" / "link").symlink_to("run")
    raw = subprocess.run(["tar", "czf", "-", "-C", str(tmp_path / "t"), "."], capture_output=True, check=True).stdout
    assert contents(raw) == {"sub/" + "n" * 180: ("file", b"long"), "run": ("executable", b"x"), "link": ("symlink", b"run")}


@pytest.mark.parametrize(
    "name, attributes, says",
    [
        ("../x", {}, "'..'"),
        ("/x", {}, "absolute"),
        ("a/../../x", {}, "'..'"),
        ("n" * 300, {}, "longer"),
        ("a\nb", {}, "control"),
        ("l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, "absolute"),
        ("l", {"type": tarfile.SYMTYPE, "linkname": "../x"}, "outside"),
        ("h", {"type": tarfile.LNKTYPE, "linkname": "a"}, "hard link"),
        ("c", {"type": tarfile.CHRTYPE}, "device"),
        ("b", {"type": tarfile.BLKTYPE}, "device"),
        ("f", {"type": tarfile.FIFOTYPE}, "FIFO"),
        ("s", {"type": b"S"}, "sparse"),
        ("a", {}, "twice"),
        ("./a", {}, "twice"),
        ("../d", {"type": tarfile.DIRTYPE}, "'..'"),
    ],
)
def test_sec_04_a_member_that_escapes_or_is_no_file_is_refused(name, attributes, says):
    with pytest.raises(Invalid) as caught:
        contents(made(("a", b"1", {}), (name, b"", attributes)))
    assert says in caught.value.message


def test_sec_04_a_name_with_a_nul_or_that_is_not_utf_8_is_refused():
    raw = made(("aXb", b"", {"pax_headers": {"path": "a\0b"}}))
    with pytest.raises(Invalid):
        contents(raw)
    block = archive.header("aXb", "file", 0)
    bad = block.replace(b"aXb", b"a\xffb", 1)
    total = sum(bad[:148]) + 256 + sum(bad[156:512])
    with pytest.raises(Invalid, match="UTF-8"):
        contents(bad[:148] + b"%06o\0 " % total + bad[156:] + archive.END)


def test_an_archive_cut_anywhere_is_refused():
    raw = made(("a", b"x" * 600, {}), ("b", b"y", {}))[: 512 * 6]
    assert contents(raw)
    for end in [*range(0, len(raw) - 1024, 100), len(raw) - 1024]:
        with pytest.raises(Invalid):
            contents(raw[:end])
    for packed in (gzip.compress(raw), zstandard.ZstdCompressor(write_checksum=True).compress(raw)):
        for end in (len(packed) - 1, len(packed) // 2, 10):
            with pytest.raises(Invalid):
                contents(packed[:end])


def test_what_follows_the_end_mark_is_not_dropped_silently():
    raw = made(("a", b"1", {}))
    with pytest.raises(Invalid, match="goes on"):
        contents(raw + made(("b", b"2", {})))


def test_damage_is_seen():
    raw = bytearray(made(("a", b"1", {})))
    raw[0] ^= 1
    with pytest.raises(Invalid):
        contents(bytes(raw))
    packed = bytearray(gzip.compress(made(("a", b"12345" * 100, {}))))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(Invalid):
        contents(bytes(packed))
    with pytest.raises(Invalid, match="not a tar"):
        contents(b"hello, this is no archive at all" * 40)


def test_several_gzip_members_and_zstd_frames_are_one_stream():
    raw = made(("a", b"1" * 5000, {}))
    zstd = zstandard.ZstdCompressor()
    assert contents(gzip.compress(raw[:700]) + gzip.compress(raw[700:])) == {"a": ("file", b"1" * 5000)}
    assert contents(zstd.compress(raw[:700]) + zstd.compress(raw[700:])) == {"a": ("file", b"1" * 5000)}


@pytest.mark.parametrize("pack", ["gz", "zst"])
def test_sec_04_a_bomb_is_refused_in_little_memory(pack):
    packer = compression.packer("tar.gz" if pack == "gz" else "tar.zst")
    raw = packer.compress(archive.header("a", "file", 1 << 30))
    for _ in range(128):
        raw += packer.compress(bytes(1 << 20))
    raw += packer.flush()
    assert len(raw) < 1 << 20
    with pytest.raises(TooLarge, match="times its size"):
        list(archive.members(compression.Unpacked(io.BytesIO(raw), compression.format_of(raw))))


def test_sec_04_a_zstd_window_over_the_limit_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    raw = packer.compress(made(("a", b"1", {}))) + packer.flush()
    with pytest.raises(TooLarge, match="window"):
        contents(raw)


def test_sec_04_limits_on_members_bytes_and_headers():
    raw = made(("a", b"1" * 10, {}), ("b", b"2" * 10, {}))
    for limits in (Limits(members=1), Limits(bytes=19), Limits(one=9)):
        with pytest.raises(TooLarge):
            contents(raw, limits)
    with pytest.raises(TooLarge, match="extended header"):
        contents(made(("a", b"", {"pax_headers": {"comment": "x" * 70_000}})))


def test_an_archive_can_be_skipped_through_without_reading_contents():
    raw = made(("a", b"x" * 100_000, {}), ("b", b"y", {}))
    assert [member.path for member, _ in archive.members(io.BytesIO(raw))] == ["a", "b"]


@pytest.mark.parametrize("path", ["a", "d" * 99 + "/" + "x" * 100, LONG, "ä/ß", "x" * 101, "d/" * 90 + "e" * 70])
def test_what_is_written_is_read_by_others(path, tmp_path):
    raw = archive.header(path, "executable", 3) + b"abc" + archive.padding(3)
    raw += archive.header("link", "symlink", 0, b"t" * 150) + archive.END
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        one, two = tar.getmembers()
        assert (one.name, one.mode, one.size, one.uid, one.mtime, tar.extractfile(one).read()) == (path, 0o755, 3, 0, 0, b"abc")
        assert (two.issym(), two.linkname) == (True, "t" * 150)
    assert subprocess.run(["tar", "tf", "-"], input=raw, capture_output=True, check=True).stdout
    assert contents(raw) == {path: ("executable", b"abc"), "link": ("symlink", b"t" * 150)}


@pytest.mark.parametrize("format", archive.FORMATS)
def test_equal_input_gives_equal_packed_bytes_that_read_back(format):
    raw = archive.header("a", "file", 5) + b"hello" + archive.padding(5) + archive.END
    made = []
    for _ in range(2):
        packer = compression.packer(format)
        made.append(packer.compress(raw[:100]) + packer.compress(raw[100:]) + packer.flush())
    assert made[0] == made[1]
    assert compression.format_of(made[0]) == format
    assert contents(made[0]) == {"a": ("file", b"hello")}


def test_limits_raise_errors_that_name_them():
    with pytest.raises(ApplianceError, match="more than 1 members"):
        contents(made(("a", b"", {}), ("b", b"", {})), Limits(members=1))
