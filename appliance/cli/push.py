"""`appliance plan push`: read the directory, learn what the appliance lacks, send only that, then the manifest."""

import argparse
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance import archive
from appliance.cli.bases import Base, Bases
from appliance.cli.common import REFUSED, SUCCESS, USAGE, Console, Failure, count, since, size
from appliance.cli.switching import say_switched, send_switch
from appliance.cli.tree import IGNORE_FILE, ChangedMeanwhile, Tree, walked
from appliance.client import Refused, part
from appliance.errors import ApplianceError
from appliance.names import check_name
from appliance.plan import Entry, Manifest, diff, manifest, parse_digest, shown, storage_order

SINGLE = 256 * 1024  # files over this are sent by themselves, streamed
BATCH = 8 << 20
ASK_AT_ONCE = 50_000
CHUNK = 256 * 1024
TRIES = 3


@dataclass(slots=True)
class Sent:
    """What went over the line."""

    files: int = 0
    bytes: int = 0


def push(args: argparse.Namespace, console: Console) -> int:
    """Push a directory; with --switch make it current."""
    root = Path(args.directory)
    name = plan_name(args.name, root)
    tree = walked(root, args.exclude, lambda count: console.progress(f"reading {root}: {count} files"))
    console.progress_over()
    refuse_problems(tree, console)
    whole = manifest(tree.entries.values())
    if tree.left_out:
        console.note(f"left out (version control): {_some(tree.left_out)}")
    if tree.ignored:
        console.note(f"left out ({IGNORE_FILE}, --exclude): {_some(tree.ignored)}")
    bases = Bases()
    url = console.client.profile.url
    base = bases.find(root, url, name)
    known = bases.manifest(base) if base is not None and not args.resend else None
    try:
        answer, sent = _negotiated(console, tree, name, whole, known, resend=args.resend)
    except ChangedMeanwhile as error:
        raise Failure(f"{error.path} changed during the push; nothing of the plan changed", "push again when it is at rest") from None
    others = base is None and answer["current"] not in (None, answer["version"]["number"])
    refused = args.switch and others and not args.force
    serial = base.serial if base is not None else int(answer["serial"])
    if not refused:
        bases.remember(root, url, name, serial, shown(whole.digest), whole)
    base = Base(str(root.resolve()), url, name, serial, shown(whole.digest), 0)
    return _tell(args, console, name, answer, sent, base, refused=refused)


def plan_name(given: str | None, root: Path) -> str:
    """The plan's name: as given, or that of the directory. Raises Failure."""
    name = given if given is not None else root.resolve().name
    try:
        return check_name("plan", name)
    except ApplianceError as error:
        hint = error.hint if given is not None else "name the plan: appliance plan push DIR NAME"
        raise Failure(error.message, hint) from None


def refuse_problems(tree: Tree, console: Console) -> None:
    """Raise Failure, with all of it listed before, if anything is wrong or there is nothing to push."""
    if tree.problems:
        for problem in tree.problems:
            console.err.write(f"  {problem.encode('utf-8', 'backslashreplace').decode()}\n")
        count = len(tree.problems)
        raise Failure(
            f"{count} problem{'s' if count > 1 else ''} in {tree.root}; nothing was sent",
            f"mend {'them' if count > 1 else 'it'}, or name what is not part of the plan in {IGNORE_FILE} or with --exclude",
            USAGE,
        )
    if not tree.entries:
        raise Failure(f"{tree.root} has no files; nothing was sent", "an empty plan is hardly meant")


def _negotiated(
    console: Console, tree: Tree, name: str, whole: Manifest, base: Manifest | None, *, resend: bool
) -> tuple[dict[str, Any], Sent]:
    """Send what is missing and the manifest. A base the appliance does not know (any more) costs one more round."""
    sent = Sent()
    changes = diff(base.entries, whole.entries) if base is not None else ()
    new = [change.new for change in changes if change.new is not None] if base is not None else list(whole.entries)
    body = {
        "base": shown(base.digest) if base is not None else None,
        "entries": [{"path": one.path, "mode": one.mode, "size": one.size, "digest": shown(one.digest)} for one in new],
        "removed": [change.path for change in changes if change.new is None],
    }
    by_digest = {one.digest: one for one in new}
    lacking = set(by_digest) if resend else _missing(console, by_digest)
    for _ in range(TRIES):
        _send(console, tree, [by_digest[digest] for digest in lacking], sent)
        try:
            answer: dict[str, Any] = console.client.put(f"/v1/plans/{part(name)}/versions/{part(shown(whole.digest))}", body)
            return answer, sent
        except Refused as error:
            if "base" in error.detail and base is not None:
                return _negotiated(console, tree, name, whole, None, resend=resend)
            if "missing" not in error.detail:
                raise
            lacking = {parse_digest(digest) for digest in error.detail["missing"]}
    raise Failure("the appliance goes on losing what is sent to it", "look at its log")


def _missing(console: Console, digests: Iterable[bytes]) -> set[bytes]:
    wanted = [shown(digest) for digest in digests]
    found: set[bytes] = set()
    for first in range(0, len(wanted), ASK_AT_ONCE):
        answer = console.client.post("/v1/blobs/missing", {"digests": wanted[first : first + ASK_AT_ONCE]})
        found |= {parse_digest(digest) for digest in answer["missing"]}
    return found


# ---------------------------------------------------------------------------------------------------- sending


def _send(console: Console, tree: Tree, entries: list[Entry], sent: Sent) -> None:
    if not entries:
        return
    small = sorted((one for one in entries if one.size <= SINGLE), key=lambda one: storage_order(one.path))
    large = [one for one in entries if one.size > SINGLE]
    total = sum(one.size for one in entries)
    with _meter(console, len(entries), total) as advance:
        for batch in _batches(small):
            raw = _bulk(tree, batch)
            console.client.send("POST", "/v1/blobs", raw, kind="application/zstd")
            sent.bytes += len(raw)
            advance(sum(one.size for one in batch))
        for one in large:
            _send_large(console, tree, one, advance)
            sent.bytes += one.size
    sent.files += len(entries)


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    held = 0
    for one in entries:
        batch.append(one)
        held += one.size
        if held >= BATCH:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _bulk(tree: Tree, batch: list[Entry]) -> bytes:
    import zstandard

    packer = zstandard.ZstdCompressor(level=3).compressobj()
    packed = []
    for one in batch:
        content = tree.content(one)
        packed.append(packer.compress(archive.header(one.digest.hex(), "file", one.size) + content + archive.padding(one.size)))
    packed.append(packer.compress(archive.END) + packer.flush())
    return b"".join(packed)


def _send_large(console: Console, tree: Tree, entry: Entry, advance: Callable[[int], None]) -> None:
    """Stream one file. Its last piece goes out only once all of it is known to be what was hashed."""

    def chunks() -> Iterator[bytes]:
        hasher = hashlib.sha256()
        held = b""
        left = entry.size
        with open(tree.root / entry.path, "rb") as file:
            while left and (chunk := file.read(min(CHUNK, left))):
                hasher.update(chunk)
                left -= len(chunk)
                if held:
                    yield held
                    advance(len(held))
                held = chunk
        if hasher.digest() != entry.digest:
            raise ChangedMeanwhile(entry.path)
        yield held
        advance(len(held))

    try:
        console.client.send("PUT", f"/v1/blobs/{part(shown(entry.digest))}", chunks(), kind="application/octet-stream", size=entry.size)
    except (ChangedMeanwhile, FileNotFoundError, PermissionError):
        console.client.close()
        raise ChangedMeanwhile(entry.path) from None


@contextmanager
def _meter(console: Console, files: int, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, a plain line otherwise."""
    text = f"sending {files} file{'s' if files > 1 else ''}, {size(total)}"
    if console.json or not console.err.isatty() or os.environ.get("TERM") == "dumb":
        console.note(text)
        yield lambda _: None
        return
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Terminal(file=console.err), transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count: progress.advance(task, count)


# ---------------------------------------------------------------------------------------------------- telling


def _tell(args: argparse.Namespace, console: Console, name: str, answer: dict[str, Any], sent: Sent, base: Base, *, refused: bool) -> int:
    version = answer["version"]
    number = version["number"]
    went = f"{sent.files} new, {size(sent.bytes)} sent" if sent.files else "nothing to send"
    what = "pushed" if answer["created"] else "unchanged: this already is"
    console.note(f"{what} {name} version {number}: {count(version['files'], 'file')}, {size(version['bytes'])} ({went})")
    switched = None
    if args.switch:
        if refused:
            raise _overruling(console, name, number)
        try:
            switched = send_switch(console, base, str(number), force=args.force)
        except Refused as error:
            error.message = f"version {number} is stored but not current: {error.message}"
            raise
        say_switched(console, switched)
    elif answer["current"] == number:
        console.next(f"appliance plan show {name}", f"version {number} is current")
    else:
        console.next(f"appliance plan switch {name} {number}", f"version {number} is not current")
    if console.json:
        console.dump({**answer, "sent": {"files": sent.files, "bytes": sent.bytes}, "switched": switched})
    return SUCCESS


def _overruling(console: Console, name: str, number: int) -> Failure:
    """The refusal of a switch from a directory of which nothing is known, where somebody's version is current."""
    now = console.client.get(f"/v1/plans/{part(name)}")
    return Failure(
        f"version {number} is stored but not current: {now['switched_by']} switched {name} to version {now['current']}"
        f" {since(now['switched_at'])}, and nothing says that this directory builds upon that",
        f"see 'appliance plan diff {name}'; put your change into a copy (appliance plan export {name} DIR), or add --force",
        REFUSED,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
