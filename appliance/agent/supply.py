"""What a run needs of a plan: fetched before anything is started, then put where it belongs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Iterable, Mapping

from . import manifest
from .content import TRIES, Content, Patience, Source, Unavailable, copied
from .manifest import DIRECTORY, MODES, Entry


class Supply:
    """Content, who has what is not there, and how long to try. `nearby`: files of this machine that may have the bytes, by digest."""

    def __init__(self, content: Content, source: Source, patience: Patience, nearby: Mapping[str, Path] | None = None) -> None:
        self.content, self._source, self._patience = content, source, patience
        self.nearby = nearby or {}

    def listed(self, digest: str) -> tuple[Entry, ...]:
        """The files of a list. Raises Unavailable, NotWanted, BadManifest."""
        for _ in range(TRIES):
            self.content.fetch(self._source, {digest: None}, self._patience)
            text = self.content.read(digest)
            if text is not None:
                return manifest.parse(text)
        raise Unavailable("its list of files is damaged whenever it is read; is the disk broken?")

    def fetch(self, entries: Iterable[Entry]) -> None:
        """Have the bytes of all that are not near. Raises Unavailable, NotWanted."""
        wanted = {entry.digest: entry.size for entry in entries if entry.digest not in self.nearby}
        self.content.fetch(self._source, wanted, self._patience)

    def place(self, entries: Iterable[Entry], root: Path) -> None:
        """Make exactly these files below `root`, each verified, links last. Raises Unavailable, NotWanted, BadManifest, OSError."""
        links = []
        made = {root}
        for entry in entries:
            target = root / entry.path
            self._parents(root, entry.path, made)
            if entry.mode == "symlink":
                links.append(entry)
            else:
                self._bring(entry, target)
        for entry in links:
            (root / entry.path).symlink_to(manifest.link_target(entry.path, self._link(entry)))

    def _parents(self, root: Path, path: str, made: set[Path]) -> None:
        ahead = []
        directory = (root / path).parent
        while directory not in made:
            ahead.append(directory)
            directory = directory.parent
        for directory in reversed(ahead):
            with suppress(FileExistsError):
                directory.mkdir()
            directory.chmod(DIRECTORY)  # not what the umask makes of it
            made.add(directory)

    def _bring(self, entry: Entry, target: Path) -> None:
        near = self.nearby.get(entry.digest)
        if near is not None and copied(near, entry.digest, target, MODES[entry.mode]):
            return
        for _ in range(TRIES):
            self.content.fetch(self._source, {entry.digest: entry.size}, self._patience)
            if self.content.copy(entry.digest, target, MODES[entry.mode]):
                return
        raise Unavailable(f"{entry.path} is damaged whenever it is copied; is the disk broken?")

    def _link(self, entry: Entry) -> bytes:
        for _ in range(TRIES):
            self.content.fetch(self._source, {entry.digest: entry.size}, self._patience)
            target = self.content.read(entry.digest)
            if target is not None:
                return target
        raise Unavailable(f"{entry.path} is damaged whenever it is read; is the disk broken?")


def combined(lists: Iterable[tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """Several lists as one. Raises BadManifest where they cannot lie beside each other."""
    entries = sorted((entry for one in lists for entry in one), key=lambda entry: entry.path)
    return manifest.parse(manifest.text_of(tuple(entries))) if entries else ()
