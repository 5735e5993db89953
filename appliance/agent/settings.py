"""Where the agent keeps its things, and its few settings. Read once, at the start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

from .errors import Usage

HOOKS = ("/usr/libexec/heat-config/hooks", "/var/lib/heat-config/hooks")


@dataclass(frozen=True)
class Settings:
    """Everything that can be set. Times are seconds."""

    state: Path
    root: Path
    hooks: tuple[Path, ...]
    insecure_http: bool
    umask: int
    backoff_first: float = 1.0
    backoff_last: float = 60.0
    wait: int = 30
    grace: float = 2.0
    request: float = 30.0
    cache: int = 512 << 20

    @property
    def identity(self) -> Path:
        """Who we are and where the appliance is; holds the token."""
        return self.state / "identity.json"

    @property
    def journal(self) -> Path:
        """The memory of what was claimed, started and finished."""
        return self.state / "journal.db"

    @property
    def document(self) -> Path:
        """The last good document."""
        return self.state / "document.json"

    @property
    def notes(self) -> Path:
        """What the running agent tells `status`; nothing depends on it."""
        return self.state / "status.json"

    @property
    def lock(self) -> Path:
        """Locked by the kernel for as long as an agent lives; what is in it does not matter."""
        return self.state / "lock"

    @property
    def content(self) -> Path:
        """Bytes of plan files by their digest, bounded by `cache`."""
        return self.state / "content"

    @property
    def runs(self) -> Path:
        """One directory per run, bounded by `workdir.prune`."""
        return self.state / "runs"


def default_state(environ: Mapping[str, str]) -> Path:
    """The state directory if nobody says: root's is the machine's, anyone else's is their own."""
    if environ.get("APPLIANCE_AGENT_STATE"):
        return Path(environ["APPLIANCE_AGENT_STATE"])
    if os.geteuid() == 0:
        return Path("/var/lib/appliance-agent")
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local/state")
    return Path(base) / "appliance-agent"


def read(environ: Mapping[str, str], *, state: str | None, insecure_http: bool, umask: int) -> Settings:
    """Settings from flags, then environment, then defaults. Raises Usage on a value that is no number."""
    where = Path(state) if state else default_state(environ)
    hooks = environ.get("APPLIANCE_AGENT_HOOKS")
    paths = hooks.split(":") if hooks else [str(where / "hooks"), *HOOKS]
    first, _, last = environ.get("APPLIANCE_AGENT_BACKOFF", "1:60").partition(":")
    return Settings(
        state=where.absolute(),
        root=Path(environ.get("APPLIANCE_AGENT_ROOT") or "/"),
        hooks=tuple(Path(path).absolute() for path in paths if path),
        insecure_http=insecure_http,
        umask=umask,
        backoff_first=_number("APPLIANCE_AGENT_BACKOFF", first),
        backoff_last=_number("APPLIANCE_AGENT_BACKOFF", last or first),
        wait=int(_number("APPLIANCE_AGENT_WAIT", environ.get("APPLIANCE_AGENT_WAIT", "30"))),
        grace=_number("APPLIANCE_AGENT_GRACE", environ.get("APPLIANCE_AGENT_GRACE", "2")),
        request=_number("APPLIANCE_AGENT_REQUEST", environ.get("APPLIANCE_AGENT_REQUEST", "30")),
        cache=int(_number("APPLIANCE_AGENT_CACHE", environ.get("APPLIANCE_AGENT_CACHE", "512"))) << 20,
    )


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Usage(f"{name} is {text!r}, which is no number") from None
    if not 0 <= value < 1e9:
        raise Usage(f"{name} is {text!r}, which is out of range")
    return value
