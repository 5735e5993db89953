"""HTTP to one appliance: no proxies, no netrc, no redirects, and a time limit that dripping bytes cannot stretch."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import json
import random
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping
from urllib.parse import urlsplit

from .errors import Refused, Unreachable, Usage

CONNECT = 10.0
LARGEST = 256 << 20
PART = 64 << 10
BARRING = ("clone", "trouble", "other-instance")
_RETRIED = (401, 408, 425, 429)


@dataclass(frozen=True)
class Answer:
    """One whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def object(self) -> dict[str, Any]:
        """The JSON object it carries. Raises Unreachable: whatever says something else is no appliance."""
        try:
            found = json.loads(self.body.decode("utf-8"))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"the answer ({self.status}) is no JSON object; is this the appliance?")
        return found

    @property
    def code(self) -> str:
        """The error's code, empty if it has none."""
        return str(self._error().get("code") or "")

    @property
    def sentence(self) -> str:
        """The status, and what the error says."""
        return f"{self.status} {self.reason}".strip()

    @property
    def reason(self) -> str:
        """What the error says and what to do about it, for people."""
        error = self._error()
        text = "; ".join(str(error[key]) for key in ("message", "hint") if error.get(key))
        return text or http.client.responses.get(self.status, "")

    def _error(self) -> dict[str, Any]:
        try:
            error = self.object().get("error")
        except Unreachable:
            return {}
        return error if isinstance(error, dict) else {}

    @property
    def bars(self) -> bool:
        """Whether it says that nothing may run on this machine for now: another agent is alive, or a person has to decide."""
        return self.status == 409 and self.code in BARRING

    @property
    def is_object(self) -> bool:
        """Whether it carries a JSON object."""
        try:
            self.object()
        except Unreachable:
            return False
        return True

    @property
    def good(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def retry(self) -> bool:
        """Whether the same request may be answered better later. A redirect is not followed, and may go away."""
        return self.status in _RETRIED or self.status >= 500 or 300 <= self.status < 400

    @property
    def retry_after(self) -> float | None:
        """Seconds the appliance asks us to wait, at most an hour."""
        text = self.headers.get("retry-after", "").strip()
        if text.isdigit():
            return min(float(text), 3600.0)
        with suppress(ValueError, TypeError, IndexError):
            return min(max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time()), 3600.0)
        return None


class Backoff:
    """Waits that double from `first` to `last`, each shortened at random by up to half, so that agents do not march."""

    def __init__(self, first: float, last: float) -> None:
        self._first, self._last = first, last
        self._next = first

    def after(self, answer: Answer | None = None) -> float:
        """How long to wait after one more failure."""
        wait = self._next * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._next = min(self._next * 2, self._last)
        asked = answer.retry_after if answer is not None else None
        return wait if asked is None else max(wait, asked)

    def reset(self) -> None:
        """It worked."""
        self._next = self._first


class Client:
    """Requests to one base URL. Safe to use from several threads; `abort` ends what is under way."""

    def __init__(self, url: str, *, insecure_http: bool, limit: float) -> None:
        self.url, self.limit = check_url(url, insecure_http=insecure_http), limit
        parts = urlsplit(self.url)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._prefix = parts.path.rstrip("/")
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._open: set[socket.socket] = set()
        self._aborted = False

    def request(
        self,
        method: str,
        path: str,
        headers: Callable[[], Mapping[str, str]],
        message: object = None,
        *,
        limit: float | None = None,
    ) -> Answer:
        """One request on a connection of its own. Raises Unreachable if no whole answer came within `limit` seconds.

        `headers` is asked when the request is about to be sent, one request at a time: a counter in it never arrives
        after a higher one, as far as that is ours.
        """
        body = None if message is None else json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        fixed = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            fixed["Content-Type"] = "application/json"
        deadline = time.monotonic() + (self.limit if limit is None else limit)
        try:
            with self._connected(deadline) as connection:
                with self._sending:
                    connection.request(method, self._prefix + path, body=body, headers={**fixed, **headers()})
                return _whole(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= deadline
            raise Unreachable(
                f"{self.url}: {'no whole answer in time' if late else _reason(error)}",
                "is the appliance running there, and the URL right?",
            ) from None

    def receive(
        self,
        method: str,
        path: str,
        headers: Callable[[], Mapping[str, str]],
        opened: Callable[[Answer], Callable[[bytes], object] | None],
        message: object = None,
    ) -> Answer:
        """As `request`, for what may be large: its bytes go, as they come, to what `opened(head)` returns; None: they are the answer's.

        Raises Unreachable when the answer was cut; what came of it until then has been handed over.
        """
        body = None if message is None else json.dumps(message).encode()
        fixed = {"Connection": "close", **({} if body is None else {"Content-Type": "application/json"})}
        deadline = time.monotonic() + self.limit
        try:
            with self._connected(deadline) as connection:
                with self._sending:
                    connection.request(method, self._prefix + path, body=body, headers={**fixed, **headers()})
                response = connection.getresponse()
                head = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, b"")
                take = opened(head)
                if take is None:
                    return _whole(response)
                size = 0
                while part := response.read(PART):
                    size += len(part)
                    take(part)
                if size < int(head.headers.get("content-length", "0")):
                    raise http.client.HTTPException("the answer was cut short")
                return head
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= deadline
            raise Unreachable(f"{self.url}: {'no whole answer in time' if late else _reason(error)}") from None

    @contextmanager
    def _connected(self, deadline: float) -> Iterator[http.client.HTTPConnection]:
        """A connection that is cut at the deadline: the only limit that holds for bytes that come one by one."""
        seconds = max(0.1, deadline - time.monotonic())
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=seconds)
        sock = socket.create_connection((self._host, connection.port), timeout=min(CONNECT, seconds))
        if self._secure:
            context = ssl.create_default_context()
            sock = context.wrap_socket(sock, server_hostname=self._host, do_handshake_on_connect=False)
        connection.sock = sock
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, (sock,))
        timer.daemon = True
        try:
            with self._lock:
                if self._aborted:
                    raise OSError("stopping")
                self._open.add(sock)
            timer.start()
            sock.settimeout(seconds)
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            yield connection
        finally:
            timer.cancel()
            with self._lock:
                self._open.discard(sock)
            connection.close()

    def cut(self) -> None:
        """End every request under way."""
        with self._lock:
            for sock in self._open:
                _cut(sock)

    def abort(self) -> None:
        """End every request under way, and every later one until `resume`."""
        self._aborted = True
        self.cut()

    def resume(self, *, limit: float) -> None:
        """Allow requests again, of at most `limit` seconds: for the last deliveries."""
        with self._lock:
            self._aborted = False
            self.limit = limit


def _whole(response: http.client.HTTPResponse) -> Answer:
    """The answer, if all of it came. A response without a length ends where the line does."""
    parts, size = [], 0
    while part := response.read(PART):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise http.client.HTTPException(f"the answer is larger than {LARGEST >> 20} MiB")
    read = b"".join(parts)
    expected = response.getheader("Content-Length")
    if expected is not None and expected.isdigit() and len(read) < int(expected) and response.status != 304:
        raise http.client.HTTPException("the answer was cut short")
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, read)


def check_url(url: str, *, insecure_http: bool) -> str:
    """The base URL without its last slash. Raises Usage for no URL, Refused for plain http to another machine."""
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_ok = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok or parts.query or parts.fragment:
        raise Usage(f"{url!r} is no URL of an appliance", "it looks like https://lab.example:8642")
    if parts.username or parts.password:
        raise Usage("the URL carries a user name or password, which an appliance does not use")
    if parts.scheme == "http" and not insecure_http and not _loopback(parts.hostname):
        raise Refused(
            f"{url} would send this machine's token unencrypted",
            "use https, or say --insecure-http if the network is trusted",
        )
    return url.rstrip("/")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not the TLS one: it would touch state another thread is using


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, socket.timeout):  # another class before Python 3.10
        return str(error) or "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
