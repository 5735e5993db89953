"""A local directory as a plan would have it, and everything that speaks against pushing it."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appliance.cli.common import Failure
from appliance.plan import BLOB_BYTES, VERSION_CONTROL, Entry, Mode, digest_of, problems, symlink_problems

IGNORE_FILE = ".applianceignore"
CHUNK = 1 << 20

_SPECIAL = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class ChangedMeanwhile(Exception):
    """A file is not what it was when it was looked at first."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(slots=True)
class Tree:
    """What was found below `root`: entries by path; version-control folders left out; how much was ignored; what is wrong."""

    root: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    targets: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def content(self, entry: Entry) -> bytes:
        """The bytes of a small entry, verified. Raises ChangedMeanwhile."""
        if entry.mode == "symlink":
            return self.targets[entry.path]
        try:
            content = (self.root / entry.path).read_bytes()
        except OSError:
            raise ChangedMeanwhile(entry.path) from None
        if digest_of(content) != entry.digest:
            raise ChangedMeanwhile(entry.path)
        return content


def walked(root: Path, excludes: Sequence[str] = (), progress: Callable[[int], None] = lambda _: None) -> Tree:
    """Look at everything below `root` and read it once. Whatever is wrong is listed, all of it, in `problems`.

    Raises Failure when `root` is no directory or the ignore patterns cannot be read.
    """
    if not root.is_dir():
        raise Failure(f"{root} is not a directory", "name the directory that holds the plan's files")
    tree = Tree(root)
    ignores = _patterns(root, excludes)
    files: list[tuple[str, Mode]] = []
    _scan(tree, "", ignores, files)
    for count, (path, mode) in enumerate(sorted(files)):
        if not count % 256:
            progress(count)
        try:
            size, digest = _read(root / path)
        except OSError as error:
            tree.problems.append(f"{path}: cannot be read ({error.strerror})")
        except ChangedMeanwhile:
            tree.problems.append(f"{path}: changed while it was read")
        else:
            tree.entries[path] = Entry(path, mode, size, digest)
    for path, target in tree.targets.items():
        tree.entries[path] = Entry(path, "symlink", len(target), digest_of(target))
    tree.problems += symlink_problems(tree.targets)
    tree.problems += problems(tuple(tree.entries[path] for path in sorted(tree.entries)))
    return tree


def _patterns(root: Path, excludes: Sequence[str]) -> Callable[[str], bool]:
    try:
        lines = (root / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{root / IGNORE_FILE} cannot be read ({error})", "it is text in the syntax of .gitignore") from None
    lines += excludes
    if not lines:
        return lambda _: False
    import pathspec  # takes a while to load, and few directories need it

    try:
        return pathspec.GitIgnoreSpec.from_lines(lines).match_file
    except ValueError as error:
        raise Failure(
            f"an ignore pattern is malformed ({error})", f"patterns are as in .gitignore; see {IGNORE_FILE} and --exclude"
        ) from None


def _scan(tree: Tree, below: str, ignored: Callable[[str], bool], files: list[tuple[str, Mode]]) -> None:
    try:
        with os.scandir(tree.root / below) as found:
            entries = sorted(found, key=lambda one: one.name)
    except OSError as error:
        tree.problems.append(f"{below or '.'}: cannot be read ({error.strerror})")
        return
    for one in entries:
        path = below + one.name
        try:
            path.encode()
        except UnicodeEncodeError:
            tree.problems.append(f"{os.fsencode(path)!r}: the name is not valid UTF-8")
            continue
        if one.name in VERSION_CONTROL:
            tree.left_out.append(path)
            continue
        directory = one.is_dir(follow_symlinks=False)
        if ignored(path + "/" if directory else path):
            tree.ignored.append(path)
        elif directory:
            _scan(tree, path + "/", ignored, files)
        else:
            _file(tree, path, files)


def _file(tree: Tree, path: str, files: list[tuple[str, Mode]]) -> None:
    try:
        found = os.lstat(tree.root / path)
        mode = found.st_mode
        if stat.S_ISLNK(mode):
            tree.targets[path] = os.fsencode(os.readlink(tree.root / path))  # noqa: PTH115 - the bytes as they are, not a Path's
            return
    except OSError as error:
        tree.problems.append(f"{path}: cannot be read ({error.strerror})")
        return
    if stat.S_ISREG(mode) and found.st_size > BLOB_BYTES:
        tree.problems.append(f"{path}: {found.st_size} bytes is over the limit of {BLOB_BYTES} for one file")
        return
    if stat.S_ISREG(mode):
        files.append((path, "executable" if mode & stat.S_IXUSR else "file"))
        return
    what = next((name for test, name in _SPECIAL if test(mode)), "neither a file nor a symlink")
    tree.problems.append(f"{path}: is {what}")


def _read(path: Path) -> tuple[int, bytes]:
    """(size, digest) of a file. Raises OSError, ChangedMeanwhile."""
    hasher = hashlib.sha256()
    size = 0
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        while chunk := file.read(CHUNK):
            hasher.update(chunk)
            size += len(chunk)
        after = os.fstat(file.fileno())
    if size != before.st_size or after.st_mtime_ns != before.st_mtime_ns:
        raise ChangedMeanwhile(str(path))
    return size, hasher.digest()
