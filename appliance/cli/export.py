"""`appliance plan export`: a version as a directory, whole or not there at all."""

import argparse
import contextlib
import hashlib
import http.client
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from appliance import archive, compression
from appliance.archive import Content, Member
from appliance.cli.bases import Bases
from appliance.cli.common import FAILED, REFUSED, SUCCESS, UNREACHABLE, Console, Failure, size
from appliance.client import part
from appliance.errors import ApplianceError
from appliance.plan import Entry, Manifest, manifest, parse_digest, shown


def export(args: argparse.Namespace, console: Console) -> int:
    """Write a version beside the directory, verify it, and put it in its place."""
    target = Path(os.path.abspath(args.directory))  # noqa: PTH100 - a symlink there stays one
    _refuse_if_in_use(target, force=args.force)
    plan = part(args.plan)
    serial = int(console.client.get(f"/v1/plans/{plan}")["serial"])
    shows = console.client.get(f"/v1/plans/{plan}/versions/{part(args.version)}")
    whole = _checked(shows)
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise Failure(f"{target.parent} cannot be written ({error.strerror})", "name a directory in a place of yours") from None
    try:
        console.progress(f"exporting {shows['files']} files, {size(shows['bytes'])}")
        _fetch(console, f"/v1/plans/{plan}/versions/{shows['number']}/archive", whole, beside)
        kept = _put_in_place(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        console.progress_over()
    Bases().remember(target, console.client.profile.url, args.plan, serial, shown(whole.digest), whole)
    console.note(f"exported {args.plan} version {shows['number']} to {args.directory}: {shows['files']} files, {size(shows['bytes'])}")
    if kept is not None:
        console.note(f"what was there before is now {kept}")
    console.next(f"appliance plan push {args.directory} {args.plan}", "change what you like")
    return SUCCESS


def _refuse_if_in_use(target: Path, *, force: bool) -> None:
    if not target.parent.is_dir():
        raise Failure(f"{target.parent} is not a directory", "make it first")
    if not target.exists() and not target.is_symlink():
        return
    if target.is_symlink() or not target.is_dir():
        raise Failure(f"{target} is there and no directory; nothing was written", "name another place", REFUSED)
    if any(target.iterdir()) and not force:
        raise Failure(
            f"{target} is not empty; nothing was written",
            "name a new directory, or use --force: what is there is then kept beside it",
            REFUSED,
        )


def _checked(shows: dict[str, object]) -> Manifest:
    """The manifest an appliance shows, as one that may be written to a disk: no path escapes, and its digest is right."""
    rows = shows["entries"]
    assert isinstance(rows, list)
    try:
        whole = manifest(Entry(row["path"], row["mode"], row["size"], parse_digest(row["digest"])) for row in rows)
    except ApplianceError as error:
        raise Failure(f"the appliance shows a manifest that cannot be written: {error.message}", code=FAILED) from None
    if shown(whole.digest) != shows["digest"]:
        raise Failure("the appliance shows a manifest with another digest than it says", "look at its log", FAILED)
    return whole


def _fetch(console: Console, path: str, whole: Manifest, into: Path) -> None:
    expected = {entry.path: entry for entry in whole.entries}
    try:
        with console.client.receive(path, format="tar.zst") as answer:
            source = compression.Unpacked(answer, "tar.zst")
            for member, content in archive.members(source):
                entry = expected.pop(member.path, None)
                if entry is None or (entry.mode, entry.size) != (member.mode, member.size):
                    raise Failure(f"the archive has {member.path!r}, which is not as the version has it; nothing was written", code=FAILED)
                _write(into, entry, member, content)
    except (http.client.HTTPException, ConnectionError, TimeoutError):
        console.client.close()
        raise Failure(
            "the archive ended in the middle; nothing was written", "try again; the appliance's log may say why", UNREACHABLE
        ) from None
    except ApplianceError as error:
        console.client.close()
        raise Failure(f"{error.message.removesuffix('; nothing was stored')}; nothing was written", error.hint, FAILED) from None
    if expected:
        raise Failure(f"the archive lacks {next(iter(expected))!r}; nothing was written", "try again", FAILED)


def _write(into: Path, entry: Entry, member: Member, content: Content) -> None:
    """Write one entry. No path leads through a symlink: a manifest has none below another entry."""
    target = into / entry.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        hasher = hashlib.sha256()
        if entry.mode == "symlink":
            hasher.update(member.target)
            target.symlink_to(member.target.decode())
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(target, flags, 0o777 if entry.mode == "executable" else 0o666), "wb") as file:
                for chunk in content.chunks():
                    hasher.update(chunk)
                    file.write(chunk)
    except OSError as error:
        raise Failure(f"{entry.path} cannot be written ({error.strerror}); nothing is left behind", code=FAILED) from None
    if hasher.digest() != entry.digest:
        raise Failure(f"{entry.path!r} came with a wrong digest; nothing was written", "try again; the appliance's log may say why", FAILED)


def _put_in_place(beside: Path, target: Path) -> Path | None:
    """Rename; where what was there before is now, if there was anything."""
    mask = os.umask(0)
    os.umask(mask)
    beside.chmod(0o777 & ~mask)
    kept = None
    try:
        if target.is_dir() and any(target.iterdir()):
            kept = next(path for path in _free_names(target) if not path.exists())
            target.rename(kept)
        try:
            beside.rename(target)
        except OSError:
            if kept is not None:
                with contextlib.suppress(OSError):
                    kept.rename(target)
            raise
    except OSError as error:
        raise Failure(f"{target} cannot be put in place ({error.strerror}); it is as it was", "export to another place") from None
    return kept


def _free_names(target: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield target.with_name(f"{target.name}.before-export-{number}")
        number += 1
