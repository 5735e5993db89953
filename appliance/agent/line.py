"""The line to the appliance: fetching documents, claiming runs, and whether any of it may be trusted just now.

`poll` runs in its own thread. The line is `up` from a document that was fetched and accepted until something fails;
claims and signals go out only while it is up, so that an appliance of another epoch is given nothing.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from dataclasses import replace
from typing import Callable, Mapping, Sequence

from . import document, hooks, identity
from .content import Open
from .document import Document
from .errors import BadDocument, Unreachable
from .facts import Facts
from .identity import Identity
from .journal import Journal
from .log import say
from .settings import Settings
from .wire import Answer, Client


class Line:
    """Everything that is sent to the appliance goes through here."""

    def __init__(self, settings: Settings, me: Identity, facts: Facts, journal: Journal, wake: Callable[[], None]) -> None:
        self._settings, self.me, self._facts, self._journal, self._wake = settings, me, facts, journal, wake
        self.client = Client(me.url, insecure_http=settings.insecure_http, limit=settings.request)
        self.up = threading.Event()
        self.document: Document | None = document.load(settings.document, agent_state=journal.agent_state)
        if self.document is not None and self.document.server != me.server:
            self.document = None
        self.problem: str | None = None
        self.refused = False
        self.wrong_epoch = False
        self.barred: str | None = None  # what the appliance says if nothing may run here until a person decides
        self.contact: float | None = None
        self._accepting = threading.Lock()
        self.quiet = False
        self._etag = ""

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        groups = hooks.groups(self._settings.hooks)
        return identity.headers(self.me, self._facts, self._journal, groups)

    def poll(self, wait: float, *, anew: bool = False) -> Answer | None:
        """Ask for a newer document once, waiting at most `wait` seconds for one; `anew`: or the same again. None if all went well."""
        path = f"/v1/servers/{self.me.server}/document?wait={int(wait)}"
        known = {"If-None-Match": self._etag} if self._etag and not anew else {}
        began = time.monotonic()
        try:
            answer = self.client.request("GET", path, lambda: {**self.headers(), **known}, limit=wait + self._settings.request)
            if answer.status == 200:
                self._accept(answer, began)
            elif answer.status != 304:
                self.barred = answer.sentence if answer.bars else None
                refused = not answer.retry or answer.status == 401
                self._down(f"the appliance answered {answer.sentence}", refused=refused)
                return answer
        except Unreachable as error:
            self._down(error.message)
            return Answer(0, {}, b"")
        except BadDocument as error:
            self._down(f"{error.message}; the last good document stays in force", refused=True)
            return Answer(0, {}, b"")
        except (OSError, sqlite3.Error) as error:
            self._down(f"the document cannot be written down: {error}")
            return Answer(0, {}, b"")
        self.contact = time.time()
        self.barred = None
        self.problem, self.refused = None, False
        if not self.up.is_set():
            say(f"in contact with {self.me.url} as {self.me.name}")
            self.up.set()
            self._wake()
        return None

    def claim(self, runs: Sequence[Mapping[str, object]], forgotten: Sequence[str]) -> Answer:
        """Ask for runs. Raises Unreachable."""
        return self._post(f"/v1/servers/{self.me.server}/claim", {"runs": list(runs), "forgotten": list(forgotten)})

    def signal(self, run: str, body: object) -> Answer:
        """Report on a run. Raises Unreachable."""
        return self._post(f"/v1/runs/{run}/signals", body)

    def blob(self, digest: str, start: int, take: Open) -> Answer:
        """Bytes of this digest from `start` on. Raises Unreachable."""
        part = {"Range": f"bytes={start}-"} if start else {}
        path = f"/v1/servers/{self.me.server}/blobs/sha256:{digest}"
        return self.client.receive("GET", path, lambda: {**self.headers(), **part}, take)

    def blobs(self, digests: list[str], take: Open) -> Answer:
        """Small ones, as a tar. Raises Unreachable."""
        asked = {"digests": [f"sha256:{digest}" for digest in digests]}
        return self.client.receive("POST", f"/v1/servers/{self.me.server}/blobs", self.headers, take, asked)

    def _post(self, path: str, body: object) -> Answer:
        answer = self.client.request("POST", path, self.headers, body)
        # a portal that says 200 to everything has recorded nothing
        return replace(answer, status=502) if answer.good and not answer.is_object else answer

    def news(self) -> None:
        """Something else than a document has changed what there is to do."""
        self._wake()

    def lost(self, why: str) -> None:
        """Something else noticed that the line is down: whoever is waiting for a newer document must find out, too."""
        self._down(why)
        self.client.cut()

    def _accept(self, answer: Answer, began: float) -> None:
        etag = answer.headers.get("etag", "")
        found = document.parse(answer.body, fetched=began, etag=etag)
        if found.server != self.me.server:
            raise BadDocument("the document is that of another server")
        wrong = document.acceptable(self.me.epoch, found.epoch)
        self.wrong_epoch = wrong is not None
        if wrong is not None:
            raise BadDocument(f"{wrong}, so nothing is started; if this appliance is right, raise its epoch there")
        with self._accepting:
            if self.document is not None and self.document.fetched is not None and self.document.fetched > began:
                return  # the other one who polls was later, and has the newer one
            document.store(self._settings.document, answer.body, etag=etag, agent_state=self._journal.agent_state)
            if found.epoch != self.me.epoch:
                say(f"following epoch {found.epoch.number}")
                self.me = replace(self.me, epoch=found.epoch)
                identity.keep(self._settings, self._journal, self.me)
            self.document, self._etag = found, etag
        self._wake()

    def _down(self, why: str, *, refused: bool = False) -> None:
        if self.problem != why and not self.quiet:
            say(why)
        self.problem, self.refused = why, refused
        if self.up.is_set():
            self.up.clear()
        self._wake()
