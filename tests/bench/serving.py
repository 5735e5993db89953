"""A serving process of its own, spoken to over one kept connection, and a stopwatch."""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Line:
    """One connection with one token."""

    def __init__(self, url: str, token: str, headers: dict[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)
        self.headers = {"Authorization": f"Bearer {token}", **(headers or {})}

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        self._connection.request(method, path, body, self.headers | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = self._connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def json(self, method: str, path: str, value: Any = None) -> Any:
        status, _, body = self.raw(method, path, None if value is None else json.dumps(value).encode(), Content_Type="application/json")
        assert status < 300, body
        return json.loads(body)


@contextlib.contextmanager
def appliance(root: Path) -> Iterator[tuple[str, str]]:
    """Serve a new file below `root`: (URL, admin token)."""
    profile = root / "client.toml"
    env = {**os.environ, "APPLIANCE_CONFIG": str(profile)}
    command = [sys.executable, "-m", "appliance", "serve", "--db", str(root / "lab.db"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("serving "):
                break
        found = tomllib.loads(profile.read_text())
        yield found["url"], found["token"]
    finally:
        process.terminate()
        process.communicate()


def took(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def shown(name: str, times: list[float]) -> str:
    ordered = sorted(times)
    tail = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{name:<52} {statistics.median(times):9.2f} ms median {tail:9.2f} ms p99   n={len(times)}"
