"""A scripted appliance: a real HTTP server in a thread. The test says what is desired and how requests are answered."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SERVER = "11111111-1111-4111-8111-111111111111"


class Fake:
    """Grants what is asked for, records everything, and answers otherwise where the test says so."""

    def __init__(self, port: int = 0) -> None:
        self.changed = 1
        self.epoch: dict[str, Any] = {"number": 1, "id": "e1"}
        self.items: list[dict[str, Any]] = []
        self.observed: dict[str, Any] = {}
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.claims: list[dict[str, Any]] = []
        self.signals: list[dict[str, Any]] = []
        self.forgotten: list[str] = []
        self.raw_document: bytes | None = None
        self.on_claim: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda run: None
        self.claim_status: tuple[int, dict[str, Any]] | None = None
        self.signal_status: Callable[[dict[str, Any]], tuple[int, dict[str, Any]] | None] = lambda signal: None
        self.document_status: tuple[int, dict[str, Any]] | None = None
        self.content: dict[str, bytes] = {}  # by digest
        self.blob_status: Callable[[str], int | None] = lambda digest: None  # refuse one with this status
        self.cut: Callable[[int], int | None] = lambda size: None  # end an answer of `size` bytes after so many
        self.sent = 0  # bytes of content
        self.drip: Callable[[str], bool] = lambda path: False
        self.polls = 0
        self._known: dict[str, dict[str, Any]] = {}
        self._seen: set[tuple[str, str]] = set()
        self.changes = threading.Condition()
        self._port = port
        self._http: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._http.daemon_threads = True
        self._port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
            with self.changes:
                self.changes.notify_all()

    @property
    def up(self) -> bool:
        return self._http is not None

    def document(self) -> dict[str, Any]:
        return {
            "server": {"id": SERVER, "name": "web-1"},
            "epoch": self.epoch,
            "desired": {"changed": self.changed, "items": self.items},
            "observed": {"items": self.observed},
        }

    def etag(self) -> str:
        if self.raw_document is not None:
            return '"' + hashlib.sha256(self.raw_document).hexdigest() + '"'
        desired = {key: value for key, value in self.document().items() if key != "observed"}
        return '"' + hashlib.sha256(json.dumps(desired).encode()).hexdigest() + '"'

    def change(self, items: list[dict[str, Any]] | None = None, *, changed: bool = True, **observed: Any) -> None:
        """A new desired state, and waiters wake."""
        with self.changes:
            if items is not None:
                self.items = items
            self.changed += changed
            self.observed.update(observed)
            self.changes.notify_all()

    def of(self, kind: str, deployment: str | None = None) -> list[dict[str, Any]]:
        """The signals of a kind that had an effect, in order."""
        return [signal for signal in self.signals if signal["kind"] == kind and deployment in (None, signal["deployment"])]

    def wait_for(self, what: Callable[[], Any], seconds: float = 10.0) -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} seconds; signals so far: {self.signals}")

    def answer_claim(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.claim_status is not None:
            return self.claim_status
        self.claims.append(body)
        self.forgotten += body["forgotten"]
        answers = []
        for run in body["runs"]:
            if run["run"] not in self._known:
                said = self.on_claim(run) or {"answer": "granted", "after": self._after(run)}
                self._known[run["run"]] = {"run": run["run"], **said}
            answers.append(self._known[run["run"]])
        return 200, {"answers": answers}

    def _after(self, run: dict[str, Any]) -> list[str]:
        for item in self.items:
            if item.get("generation") == run["generation"]:
                return [blocker["generation"] for blocker in item["blocked_on"] if blocker["here"]]
        return []

    def answer_signal(self, run: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        said = self.signal_status(body)
        if said is not None:
            return said
        key = (run, body["kind"])
        if key not in self._seen:
            self._seen.add(key)
            self.signals.append({"run": run, **body})
        return 200, {"effect": "recorded"}


class _Handler(BaseHTTPRequestHandler):
    fake: Fake
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        fake = self.fake
        fake.requests.append(("GET", self.path, dict(self.headers), None))
        if fake.drip(self.path):
            self._drip()
            return
        if "/blobs/sha256:" in self.path:
            self._blob(self.path.rpartition(":")[2])
            return
        if fake.document_status is not None:
            self._send(fake.document_status[0], json.dumps(fake.document_status[1]).encode(), {})
            return
        wait = float(self.path.rpartition("wait=")[2] or 0)
        until = time.monotonic() + wait
        with fake.changes:
            fake.polls += 1
            while self.headers.get("If-None-Match") == fake.etag() and fake.up and time.monotonic() < until:
                fake.changes.wait(until - time.monotonic())
            etag = fake.etag()
            if not fake.up:
                self.close_connection = True
                return
            body = fake.raw_document if fake.raw_document is not None else json.dumps(fake.document()).encode()
        if self.headers.get("If-None-Match") == etag:
            self._send(304, b"", {"ETag": etag})
        else:
            self._send(200, body, {"ETag": etag})

    def do_POST(self) -> None:
        fake = self.fake
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        fake.requests.append(("POST", self.path, dict(self.headers), body))
        if not fake.up:
            self.close_connection = True
            return
        with fake.changes:
            if self.path == "/v1/join":
                status, answer = 200, {"server": SERVER, "name": "web-1", "token": "agent-token", "epoch": fake.epoch}
                if body["token"] != "join-token":
                    status, answer = 401, {"error": {"code": "unauthorized", "message": "unknown token", "hint": ""}}
            elif self.path.endswith("/claim"):
                status, answer = fake.answer_claim(body)
            elif self.path.endswith("/blobs"):
                self._blobs([digest.partition(":")[2] for digest in body["digests"]])
                return
            else:
                status, answer = fake.answer_signal(self.path.split("/")[3], body)
        self._send(status, json.dumps(answer).encode(), {})

    def _blob(self, digest: str) -> None:
        refused = self.fake.blob_status(digest) or (404 if digest not in self.fake.content else None)
        if refused is not None:
            self._send(refused, json.dumps({"error": {"code": "x", "message": "no such blob", "hint": ""}}).encode(), {})
            return
        content = self.fake.content[digest]
        asked = self.headers.get("Range", "bytes=0-")
        start = int(asked[len("bytes=") : -1])
        if start >= len(content) and start:
            self._send(416, b"{}", {"Content-Range": f"bytes */{len(content)}"})
            return
        head = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        self._content(206 if start else 200, content[start:], head)

    def _blobs(self, digests: list[str]) -> None:
        if any(self.fake.blob_status(digest) or digest not in self.fake.content for digest in digests):
            self._send(404, json.dumps({"error": {"code": "x", "message": "no such blob", "hint": ""}}).encode(), {})
            return
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for digest in digests:
                member = tarfile.TarInfo(digest)
                member.size = len(self.fake.content[digest])
                tar.addfile(member, io.BytesIO(self.fake.content[digest]))
        self._content(200, out.getvalue(), {})

    def _content(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        cut = self.fake.cut(len(content))
        sent = content if cut is None else content[:cut]
        self.fake.sent += len(sent)
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)
            self.wfile.flush()
        except OSError:
            pass
        self.close_connection = True

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def _drip(self) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 1000:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass
        self.close_connection = True


def script(text: str, *, name: str = "base", deployment: str | None = None, **more: Any) -> dict[str, Any]:
    """An item of the document: a shell script, on-change, ready."""
    config = {
        "id": str(uuid.uuid4()),
        "name": name,
        "group": more.pop("group", "script"),
        "creation_time": "2026-01-01T00:00:00Z",
        "config": text if text.startswith("#!") or more.pop("verbatim", False) else f"#!/bin/sh\n{text}\n",
        "options": more.pop("options", {}),
        "inputs": more.pop("inputs", []),
        "outputs": more.pop("outputs", []),
    }
    return {
        "deployment": deployment or str(uuid.uuid4()),
        "name": name,
        "generation": str(uuid.uuid4()),
        "number": 1,
        "attempt": 1,
        "action": "CREATE",
        "policy": "on-change",
        "interval": None,
        "timeout": 60,
        "ready": True,
        "blocked_on": [],
        "after": [],
        "config": config,
        **more,
    }


def after(item: dict[str, Any], *others: dict[str, Any], here: bool = True) -> dict[str, Any]:
    """`item`, blocked on others."""
    blockers = [
        {"deployment": other["deployment"], "generation": other["generation"], "name": other["name"], "here": here} for other in others
    ]
    return {**item, "ready": False, "blocked_on": blockers, "after": [other["deployment"] for other in others if here]}


def again(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same deployment with a new generation."""
    return {**item, "generation": str(uuid.uuid4()), "number": item["number"] + 1, **more}


def files(fake: Fake, tree: dict[str, bytes | tuple[str, bytes]]) -> dict[str, Any]:
    """What a config says of these files (path: content, or (mode, content)), which the appliance has from now on."""
    lines = []
    for path, given in sorted(tree.items()):
        mode, data = ("file", given) if isinstance(given, bytes) else given
        digest = hashlib.sha256(data).hexdigest()
        fake.content[digest] = data
        lines.append(f"{mode} {len(data)} {digest} {path}\n")
    text = b"appliance manifest 1\n" + "".join(lines).encode()
    digest = hashlib.sha256(text).hexdigest()
    fake.content[digest] = text
    return {"prefix": "", "digest": f"sha256:{digest}"}


def with_files(item: dict[str, Any], *lists: dict[str, Any]) -> dict[str, Any]:
    """`item` with files beside it."""
    return {**item, "config": {**item["config"], "files": list(lists)}}
