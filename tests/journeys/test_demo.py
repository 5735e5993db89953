"""`appliance demo`, which checks every count itself: that it passes, and leaves nothing behind however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..lab import until


def begin(path: Path, *words: str) -> "subprocess.Popen[str]":
    for name in ("home", "tmp"):
        (path / name).mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("APPLIANCE_", "XDG_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "appliance", "demo", *words],
        env=kept | {"HOME": str(path / "home"), "TMPDIR": str(path / "tmp")},
        cwd=path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(path: Path) -> list[str]:
    """Files below `path`, and processes that know of it."""
    found = [str(file) for name in ("home", "tmp") for file in (path / name).iterdir()]
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and os.fsencode(path / "tmp") in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = begin(tmp_path)
    out, err = demo.communicate(timeout=110)
    assert demo.returncode == 0, out + err
    assert out.count(" right\n") == 8
    assert "WRONG" not in out
    assert "Traceback" not in out + err
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_told_to_stop_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    demo = begin(tmp_path)
    assert demo.stdout is not None
    until("the agents to be started", lambda: "in contact" in (demo.stdout.readline() if demo.stdout else ""))
    time.sleep(0.7)
    demo.send_signal(number)
    _, err = demo.communicate(timeout=60)
    assert demo.returncode == 128 + number
    assert "Traceback" not in err
    assert left_behind(tmp_path) == []
