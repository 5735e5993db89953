"""Those who write to and read from an appliance that is killed again and again. What was acknowledged to them they write down."""

import hashlib
import http.client
import io
import json
import random
import tarfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from appliance.client import Client, Refused, Unreachable
from appliance.plan import Entry, digest_of, manifest, shown

from ..lab import Lab

FILES = 24


class Cut(Exception):
    """The appliance was killed meanwhile; what was asked may or may not have been done."""


class Load:
    """Workers, each a thread with a connection of its own. `acknowledged` holds facts that must hold from then on."""

    def __init__(self, lab: Lab, chosen: random.Random) -> None:
        self.lab = lab
        self.up = threading.Event()
        self.over = threading.Event()
        self.wrong: list[str] = []
        self.acknowledged: list[tuple[str, dict[str, Any]]] = []
        self.counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._agents = [Reporter(self, f"m{n}") for n in (1, 2)]
        self._works: list[Callable[[Client, random.Random], None]] = [
            *(lambda client, chosen, plan=plan: self._push(client, chosen, plan) for plan in ("p", "q")),  # type: ignore[misc]
            self._switch,
            *(agent.work for agent in self._agents),
            self._read,
            self._read,
        ]
        self._threads = [
            threading.Thread(target=self._go_on, args=(work, random.Random(chosen.random()))) for work in self._works
        ]  # fmt: skip

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self.up.set()

    def stop(self) -> None:
        self.over.set()
        self.up.set()
        for thread in self._threads:
            thread.join()

    def note(self, kind: str, **fact: Any) -> None:
        with self._lock:
            self.acknowledged.append((kind, fact))
            self.counts[kind] = self.counts.get(kind, 0) + 1

    def _go_on(self, work: Callable[[Client, random.Random], None], chosen: random.Random) -> None:
        client: Client | None = None
        while not self.over.is_set():
            self.up.wait()
            if self.over.is_set():
                break
            try:
                client = client or self.lab.connect(timeout=20)
                work(client, chosen)
            except (Unreachable, Cut, http.client.HTTPException, OSError):
                if client is not None:
                    client.close()
                time.sleep(0.02)
            except Refused as error:
                if error.code != "conflict":
                    self.wrong.append(f"{error.status} {error.message}")
            except Exception as error:  # noqa: BLE001 - it must be seen, not lost with its thread
                self.wrong.append(f"{type(error).__name__}: {error}")

    # ------------------------------------------------------------------------------------------ writers

    def _push(self, client: Client, chosen: random.Random, plan: str) -> None:
        """A version whose every file carries the same mark; as an archive, or as blobs and a manifest."""
        mark = uuid.uuid4().hex
        files = {f"d{n % 3}/f{n}": f"{mark}\n{n}\n".encode() + chosen.randbytes(chosen.choice((10, 2000))) for n in range(FILES)}
        if chosen.random() < 0.2:
            files["large"] = mark.encode() + b"\n" + chosen.randbytes(400_000)
        if chosen.random() < 0.5:
            pushed = client.send("POST", f"/v1/plans/{plan}/archive", tar_of(files), kind="application/x-tar")
        else:
            blobs = {digest_of(data).hex(): data for data in files.values()}
            client.send("POST", "/v1/blobs", tar_of(blobs), kind="application/x-tar")
            whole = manifest(Entry(path, "file", len(data), digest_of(data)) for path, data in files.items())
            entries = [{"path": one.path, "mode": one.mode, "size": one.size, "digest": shown(one.digest)} for one in whole.entries]
            pushed = client.put(f"/v1/plans/{plan}/versions/{shown(whole.digest)}", {"entries": entries})
        version = pushed["version"]
        self.note("push", plan=plan, number=version["number"], digest=version["digest"], mark=mark, files=len(files))

    def _switch(self, client: Client, chosen: random.Random) -> None:
        with self._lock:
            known = [fact for kind, fact in self.acknowledged if kind == "push"]
        if not known:
            time.sleep(0.01)
            return
        fact = chosen.choice(known[-6:])
        done = client.post(f"/v1/plans/{fact['plan']}/switch", {"to": fact["number"]})
        if not done["unchanged"]:
            self.note("switch", plan=fact["plan"], serial=done["serial"], version=fact["number"])

    # ------------------------------------------------------------------------------------------ readers

    def _read(self, client: Client, chosen: random.Random) -> None:
        """The current version, as a manifest with its files one by one, or as an archive."""
        plan = chosen.choice(("p", "q"))
        try:
            if chosen.random() < 0.5:
                self._read_files(client, plan)
            else:
                self._read_archive(client, plan)
        except Refused as error:
            if error.status != 404:
                raise
            time.sleep(0.01)

    def _read_files(self, client: Client, plan: str) -> None:
        found = client.get(f"/v1/plans/{plan}/versions/current")
        marks = set()
        for entry in found["entries"]:
            with client.receive(f"/v1/plans/{plan}/versions/{found['number']}/files/{entry['path']}") as answer:
                data = answer.read()
            if len(data) != entry["size"]:
                raise Cut
            if "sha256:" + hashlib.sha256(data).hexdigest() != entry["digest"]:
                self.wrong.append(f"{plan} {found['number']}: {entry['path']} has other bytes than its digest says")
            marks.add(data[:32])
        if len(marks) != 1 or len(found["entries"]) < FILES:
            self.wrong.append(f"{plan} {found['number']}: {len(found['entries'])} files of {len(marks)} versions")
        self.counts["read"] = self.counts.get("read", 0) + 1

    def _read_archive(self, client: Client, plan: str) -> None:
        with client.receive(f"/v1/plans/{plan}/versions/current/archive", format="tar") as answer:
            data = answer.read()
        marks = []
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                opened = archive.extractfile(member)
                if opened is not None:
                    marks.append(opened.read(32))
        if len(set(marks)) != 1 or len(marks) < FILES:
            self.wrong.append(f"an archive of {plan}: {len(marks)} files of {len(set(marks))} versions")
        self.counts["read"] = self.counts.get("read", 0) + 1


class Reporter:
    """An agent in little: creates deployments, claims their runs, and reports them, each until it is acknowledged."""

    def __init__(self, load: Load, name: str) -> None:
        self._load, self._name = load, name
        client = load.lab.client
        token = client.post("/v1/servers", {"name": name})["join_token"]
        self._facts = {"instance": {"machine": uuid.uuid4().hex}, "agent_state": uuid.uuid4().hex, "boot": f"{uuid.uuid4()}.1"}
        joined = client.post("/v1/join", {"token": token, **self._facts})
        self._server, self._token = joined["server"], joined["token"]
        self._journal = 0
        self._todo: list[tuple[str, dict[str, Any]]] = []

    def work(self, client: Client, chosen: random.Random) -> None:
        """Whatever was not acknowledged is asked again, with the same ids; then something new."""
        while self._todo:
            path, body = self._todo[0]
            answer = self._ask(path, body)
            kind = body.get("kind", "claim")
            if kind == "claim":
                said = answer["answers"][0]["answer"]
                if said != "granted":
                    self._load.wrong.append(f"a claim was {answer}")
            elif answer["effect"] != "recorded":
                self._load.wrong.append(f"a report had the effect {answer}")
            self._load.note(kind, run=path.split("/")[3] if kind != "claim" else body["runs"][0]["run"], **self._current)
            self._todo.pop(0)
        name = f"d{chosen.randrange(1 << 40)}"
        config = {"body": f"#!/bin/sh\n# {name}\n"}
        made = client.post("/v1/deployments", {"server": self._name, "name": name, "config": config})
        self._current = {"deployment": made["id"], "generation": made["generation"]["id"], "said": f"from {name}"}
        self._load.note("create", **self._current)
        run = str(uuid.uuid4())
        ids = {"deployment": made["id"], "generation": made["generation"]["id"], "attempt": 1}
        report = {**ids, "leg": 1, "at": "2026-01-01T00:00:00Z"}
        self._todo = [
            (f"/v1/servers/{self._server}/claim", {"runs": [{"run": run, **ids}], "forgotten": []}),
            (f"/v1/runs/{run}/signals", {"kind": "started", **report, "repeat": None, "changed": 1}),
            (f"/v1/runs/{run}/signals", {"kind": "finished", **report, **ENDED, "stdout": self._current["said"]}),
        ]

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        self._journal += 1
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Appliance-Instance": json.dumps(self._facts["instance"]),
            "Appliance-Agent-State": self._facts["agent_state"],
            "Appliance-Boot": self._facts["boot"],
            "Appliance-Journal": str(self._journal),
        }
        request = urllib.request.Request(self._load.lab.url + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                self._load.wrong.append(f"{path}: {error.code} {error.read().decode()}")
            raise Cut from None


ENDED: dict[str, Any] = {
    "outcome": "ended",
    "status_code": 0,
    "outputs": {},
    "stderr": "",
    "sizes": {},
    "truncated": [],
    "message": None,
    "started_at": "2026-01-01T00:00:00Z",
    "ended_at": "2026-01-01T00:00:00Z",
}


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar of these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()
