"""What every handler needs, made once by the composition root."""

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from appliance.keys import Key
from appliance.operations.files import Trees
from appliance.store.database import Database
from appliance.store.tokens import Token
from appliance.web.seen import SeenBuffer
from appliance.web.waits import Waits


@dataclass(frozen=True, slots=True)
class Settings:
    """How this process listens. `url` is the base of every URL we write, without a slash at its end."""

    url: str
    hosts: frozenset[str] = frozenset()
    insecure: bool = False
    loopback: bool = True
    access_log: bool = False
    heat_none: bool = False  # the Heat edge takes requests without a credential, under a secret project


@dataclass(slots=True)
class Context:
    """The open file, its key, and what is remembered between requests."""

    database: Database
    key: Key
    epoch_number: int
    epoch_id: str
    settings: Settings
    waits: Waits = field(default_factory=Waits)
    seen: SeenBuffer = field(default_factory=SeenBuffer)
    tokens: dict[bytes, Token] = field(default_factory=dict)
    trees: Trees = field(default_factory=Trees)

    def after_commit(self, topics: set[str]) -> None:
        """Forget what a commit made stale, then wake those who wait for it."""
        if "tokens" in topics:
            self.tokens.clear()
        self.waits.wake(topics)


def context(request: HTTPConnection) -> Context:
    """The context of the application a request came to."""
    found: Context = request.app.state.context
    return found
