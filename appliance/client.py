"""The HTTP client of the command line: JSON in and out, streams for large things. Standard library only, since it must start fast."""

import http.client
import json
import os
import ssl
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

CONNECT_SECONDS = 10
ANSWER_SECONDS = 120


class Unreachable(Exception):
    """The appliance did not answer. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unusable(Unreachable):
    """What says where the appliance is makes no sense."""


class Refused(Exception):
    """The appliance answered with an error: its HTTP status, code, message, hint and detail."""

    def __init__(self, status: int, code: str, message: str, hint: str, detail: dict[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the appliance is and who we are there. `source` says where that was found."""

    url: str
    token: str
    source: str


def config_path() -> Path:
    """The client's settings: $APPLIANCE_CONFIG, else client.toml below the user's configuration."""
    named = os.environ.get("APPLIANCE_CONFIG")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "appliance" / "client.toml"


def profile(url: str | None = None, token: str | None = None) -> Profile:
    """Flags, then environment, then the file. Raises Unreachable when nothing says where the appliance is."""
    path = config_path()
    found: dict[str, Any] = {}
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        pass
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} cannot be read: {error}", "mend or remove it; `appliance serve` on a new database writes one") from None
    chosen = url or os.environ.get("APPLIANCE_URL") or found.get("url")
    secret = token or os.environ.get("APPLIANCE_TOKEN") or found.get("token") or ""
    if not chosen:
        raise Unreachable(
            "nothing says where the appliance is",
            f"start one with `appliance serve` (it writes {path}), or set APPLIANCE_URL and APPLIANCE_TOKEN",
        )
    source = "--url" if url else "APPLIANCE_URL" if os.environ.get("APPLIANCE_URL") else str(path)
    return Profile(str(chosen).rstrip("/"), str(secret), source)


class Client:
    """A connection to one appliance. Not for several threads at once."""

    def __init__(self, where: Profile, *, timeout: float = ANSWER_SECONDS) -> None:
        self.profile = where
        self.timeout = timeout
        parts = urlsplit(where.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unusable(f"{where.url!r} is not an http or https URL", "give it as http://HOST:PORT")
        self._parts = parts
        self._connection: http.client.HTTPConnection | None = None
        self.headers: Mapping[str, str] = {}

    # ------------------------------------------------------------------------------------------ JSON

    def get(self, path: str, *, timeout: float | None = None, **query: Any) -> Any:
        """GET `path`; None-valued query arguments are left out. Raises Unreachable, Refused."""
        return self._json("GET", path, None, query, timeout=timeout)

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """POST with an Idempotency-Key, so that a lost answer is asked for again safely. Raises Unreachable, Refused."""
        return self._json("POST", path, body if body is not None else {}, query, key=str(uuid.uuid4()))

    def put(self, path: str, body: Any, **query: Any) -> Any:
        """PUT JSON. Raises Unreachable, Refused."""
        return self._json("PUT", path, body, query)

    def patch(self, path: str, body: Any) -> Any:
        """PATCH JSON. Raises Unreachable, Refused."""
        return self._json("PATCH", path, body, {})

    def delete(self, path: str, **query: Any) -> Any:
        """DELETE. Raises Unreachable, Refused."""
        return self._json("DELETE", path, None, query)

    def _json(
        self, method: str, path: str, body: Any, query: Mapping[str, Any], *, key: str | None = None, timeout: float | None = None
    ) -> Any:
        headers = {"Accept": "application/json"}
        raw = None
        if body is not None:
            raw = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        again = method != "POST" or key is not None
        with self._answer(method, with_query(path, query), raw, headers, again=again, timeout=timeout) as answer:
            return self._value(answer)

    def _value(self, answer: http.client.HTTPResponse) -> Any:
        try:
            content = answer.read()
            return json.loads(content) if content else None
        except (http.client.IncompleteRead, OSError):
            self.close()
            raise Unreachable(f"the answer of {self.profile.url} was cut short", "try again") from None
        except ValueError:
            raise Unreachable(f"what answers at {self.profile.url} is not an appliance", "check the URL") from None

    # ------------------------------------------------------------------------------------------ streams

    def send(
        self,
        method: str,
        path: str,
        chunks: Iterable[bytes] | bytes,
        *,
        kind: str,
        size: int | None = None,
        headers: Mapping[str, str] = {},
    ) -> Any:
        """Send a body of content type `kind`, chunked unless its `size` is known; the JSON answer. Raises Unreachable, Refused."""
        sent = {"Content-Type": kind, "Accept": "application/json", **headers}
        if isinstance(chunks, bytes):
            size = len(chunks)
        if size is not None:
            sent["Content-Length"] = str(size)
        with self._answer(method, path, chunks, sent, again=isinstance(chunks, bytes), timeout=None) as answer:
            return self._value(answer)

    @contextmanager
    def receive(self, path: str, *, headers: Mapping[str, str] = {}, **query: Any) -> Iterator[http.client.HTTPResponse]:
        """GET `path` as a stream; a stream that was cut raises http.client.IncompleteRead when read. Raises Unreachable, Refused."""
        with self._answer("GET", with_query(path, query), None, dict(headers), again=True, timeout=None) as answer:
            yield answer

    # ------------------------------------------------------------------------------------------ one exchange

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Any, headers: dict[str, str], *, again: bool, timeout: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        answer = self._exchange(method, path, body, headers, again=again, timeout=timeout)
        for _ in range(5):
            if answer.status not in (307, 308):
                break
            target = urlsplit(answer.headers.get("Location", ""))
            answer.read()
            if target.netloc and target.netloc != self._parts.netloc:
                raise Unreachable(f"{self.profile.url} sends us on to {target.netloc}", "name that address with --url if you trust it")
            answer = self._exchange(
                method, target.path + ("?" + target.query if target.query else ""), body, headers, again=again, timeout=timeout
            )
        if answer.status >= 400:
            content = answer.read()
            raise refusal(answer.status, content)
        self.headers = dict(answer.headers)
        yield answer
        if not answer.isclosed():
            self.close()

    def _exchange(
        self, method: str, path: str, body: Any, headers: dict[str, str], *, again: bool, timeout: float | None
    ) -> http.client.HTTPResponse:
        sent = dict(headers)
        if self.profile.token:
            sent["Authorization"] = f"Bearer {self.profile.token}"
        for attempt in (1, 2):
            fresh = self._connection is None
            try:
                connection = self._connect(timeout)
                connection.request(method, self._parts.path.rstrip("/") + path, body, sent)
                return connection.getresponse()
            except (http.client.BadStatusLine, http.client.CannotSendRequest, ConnectionError) as error:
                answer = self._early_answer()
                if answer is not None:
                    return answer
                self.close()
                if attempt == 2 or fresh or not again:
                    raise self._unreachable(error) from None
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise Unreachable(f"the certificate of {self.profile.url} is not trusted: {error.verify_message}") from None
            except TimeoutError:
                self.close()
                raise Unreachable(f"{self.profile.url} did not answer in time", "it may be busy; try again") from None
            except OSError as error:
                self.close()
                raise self._unreachable(error) from None
        raise AssertionError

    def _early_answer(self) -> http.client.HTTPResponse | None:
        """An appliance that refuses an upload answers and closes before all of it was sent; that answer says why."""
        if self._connection is None or self._connection.sock is None:
            return None
        try:
            answer = http.client.HTTPResponse(self._connection.sock)
            answer.begin()
        except (OSError, http.client.HTTPException):
            return None
        return answer

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=ssl.create_default_context())
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
            self._connection.connect()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout or self.timeout)
        return self._connection

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(
            f"no appliance answers at {self.profile.url} ({reason})",
            f"start it with `appliance serve`, or name another with --url (this one is from {self.profile.source})",
        )

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """`path` with a query of what is not None."""
    chosen = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return path + ("?" + urlencode(chosen) if chosen else "")


def refusal(status: int, content: bytes) -> Refused:
    """The error an answer carries."""
    try:
        error = json.loads(content)["error"]
        return Refused(status, error["code"], error["message"], error.get("hint", ""), error.get("detail", {}))
    except (ValueError, KeyError, TypeError):
        return Refused(
            status, "http", f"HTTP status {status} from what is not an appliance, or one of another version", "check the URL", {}
        )


def part(text: str) -> str:
    """One part of a URL's path, quoted."""
    return quote(text, safe="")
