"""The README's first session is run as it stands, and what it prints must match."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def session() -> list[tuple[str, list[str]]]:
    """(command, expected lines) of the console block of the first session."""
    text = README.read_text().partition("## A first session")[2]
    block = text.partition("```console\n")[2].partition("```")[0]
    steps: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def script() -> str:
    return README.read_text().partition("## A first session")[2].partition("```sh\n")[2].partition("```")[0]


def alike(line: str, scratch: str, port: int) -> str:
    """A line without what differs from run to run."""
    line = line.replace(f":{port}", ":8642").replace(scratch + "/", "")
    line = re.sub(r"\b\d+(\.\d+)? (B|KiB)\b", "SIZE", line)
    line = re.sub(r"\b\d+ (s|min) ago\b", "AGO", line)
    line = re.sub(r"\bapp_[A-Za-z0-9_-]{43}", "TOKEN", line)
    return re.sub(r"\brun [0-9a-f]{8}\b", "run ID", line)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_first_session_of_the_readme_prints_what_it_says(tmp_path):
    port = free_port()
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "hello.sh").write_text(script())
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "appliance").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance "$@"\n')
    (bin / "appliance").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("APPLIANCE_")} | {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "APPLIANCE_CONFIG": str(tmp_path / "client.toml"),
        "APPLIANCE_AGENT_STATE": str(tmp_path / "agent"),
        "PYTHONPATH": str(README.parent),
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, expected in session():
            wanted = [alike(line, str(tmp_path), port) for line in expected]
            command = command.replace(":8642", f":{port}")
            if command.endswith(" &"):
                log = tmp_path / f"background-{len(started)}"
                command = command.removesuffix(" &").replace("serve --db", f"serve --listen 127.0.0.1:{port} --db")
                with log.open("wb") as out:
                    background = subprocess.Popen(
                        ["bash", "-c", f"exec {command}"], cwd=tmp_path, env=environment, stdout=out, stderr=out, start_new_session=True
                    )
                started.append(background)
                deadline = time.monotonic() + 30
                while (printed := log.read_text().splitlines()[: len(wanted)]) != wanted and time.monotonic() < deadline:
                    if [alike(line, str(tmp_path), port) for line in printed] == wanted:
                        break
                    time.sleep(0.1)
            else:
                done = subprocess.run(
                    ["bash", "-c", f"( {command} ) 2>&1"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
                )
                printed = done.stdout.splitlines()
                assert done.returncode == 0, (command, done.stdout)
            assert [alike(line, str(tmp_path), port) for line in printed] == wanted, f"{command}\n" + "\n".join(printed)
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        shutil.rmtree(tmp_path / "agent", ignore_errors=True)
