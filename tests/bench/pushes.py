"""The server's part of a push of 1,658 small files, beside one tar file of the same bytes that is written and fsynced."""

import io
import json
import os
import random
import statistics
import tarfile
from pathlib import Path

from appliance import archive
from appliance.plan import Entry, digest_of, manifest, shown, storage_order

from .serving import Line, took
from .serving import shown as line_of

FILES = 1658
ROUNDS = 5


def tree(seed: int) -> dict[str, bytes]:
    """Text like a real plan's: a few shapes of file, most of a few KiB, some large."""
    chance = random.Random(seed)
    words = [
        f"{a}{b}"
        for a in ("service", "network", "port", "param", "host", "role", "config")
        for b in ("_name", "_id", ": !type", "s:", "-x")
    ]
    found = {}
    for n in range(FILES):
        size = min(int(chance.lognormvariate(7.5, 1.2)), 200_000)
        lines, length = [f"# file {n} of lab {seed}"], 0
        while length < size:
            lines.append("  " * chance.randrange(4) + " ".join(chance.choices(words, k=chance.randrange(1, 7))))
            length += len(lines[-1])
        found[f"d{n % 40}/e{n % 7}/file-{n}.yaml"] = "\n".join(lines).encode()
    return found


def edited(files: dict[str, bytes], seed: int, share: float) -> dict[str, bytes]:
    chance = random.Random(seed)
    changed = chance.sample(sorted(files), max(1, int(len(files) * share)))
    return files | {path: files[path] + b"\n# edit %d" % seed for path in changed}


def as_tar(contents: list[bytes]) -> bytes:
    parts = [
        part for data in contents for part in (archive.header(digest_of(data).hex(), "file", len(data)), data, archive.padding(len(data)))
    ]
    return b"".join(parts) + archive.END


def push(line: Line, files: dict[str, bytes]) -> float:
    """What the server takes for one push: what is missing, the missing, the manifest. The client's hashing is not in it."""
    entries = [
        Entry(path, "file", len(data), digest_of(data)) for path, data in sorted(files.items(), key=lambda item: storage_order(item[0]))
    ]
    by_digest = {shown(entry.digest): files[entry.path] for entry in entries}
    asked = json.dumps({"digests": list(by_digest)}).encode()
    whole = manifest(entries)
    listed = [{"path": one.path, "mode": one.mode, "size": one.size, "digest": shown(one.digest)} for one in whole.entries]
    body = json.dumps({"entries": listed}).encode()
    missing: list[str] = []

    def ask() -> None:
        missing.extend(json.loads(line.raw("POST", "/v1/blobs/missing", asked, Content_Type="application/json")[2])["missing"])

    total = took(ask)
    wanted = set(missing)
    bulk = as_tar([data for digest, data in by_digest.items() if digest in wanted])
    answers: list[int] = []
    if wanted:
        total += took(lambda: answers.append(line.raw("POST", "/v1/blobs", bulk, Content_Type="application/x-tar")[0]))
    path = f"/v1/plans/lab/versions/{shown(whole.digest)}"
    total += took(lambda: answers.append(line.raw("PUT", path, body, Content_Type="application/json")[0]))
    assert set(answers) == {200}, answers
    return total


def tar_file(files: dict[str, bytes], target: Path) -> float:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as packed:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    whole = held.getvalue()

    def write() -> None:
        with target.open("wb") as file:
            file.write(whole)
            os.fsync(file.fileno())

    return took(write)


def run(url: str, token: str, root: Path) -> list[str]:
    """The lines of the table."""
    line = Line(url, token)
    first, again, peer = [], [], []
    for n in range(ROUNDS):
        files = tree(n)
        first.append(push(line, files))
        peer.append(tar_file(files, root / "peer.tar"))
        again.append(push(line, edited(files, n, 0.01)))
    size = sum(map(len, tree(0).values())) / 1e6
    stored = sum(path.stat().st_size for path in root.glob("lab.db*")) / 1e6
    return [
        f"push of {FILES} files, {size:.1f} MB, {ROUNDS} labs (the file afterwards: {stored:.1f} MB)",
        line_of("  first push of a lab", first),
        line_of("  one tar of it, written and fsynced", peer),
        line_of("  push after an edit of 1 % of its files", again),
        f"  first push / tar: {statistics.median(first) / statistics.median(peer):.1f}",
    ]
