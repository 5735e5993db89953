"""What the machine says about itself: which instance it is and which boot. Unknown parts are left out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

_BY_UUID = "dev/disk/by-uuid"


@dataclass(frozen=True)
class Facts:
    """Instance parts (`machine`, `root`, `cloud`) and the boot: kernel boot id, a dot, start time of process 1."""

    instance: dict[str, str]
    boot: str


def gather(root: Path) -> Facts:
    """Read the facts below `root`. Never fails: what cannot be read is unknown."""
    parts = {
        "machine": _line(root / "etc/machine-id"),
        "root": _root_uuid(root),
        "cloud": _line(root / "var/lib/cloud/data/instance-id"),
    }
    kernel = _line(root / "proc/sys/kernel/random/boot_id") or "unknown"
    start = start_time(root / "proc/1/stat")
    return Facts(
        instance={name: value for name, value in parts.items() if value},
        boot=f"{kernel}.{'unknown' if start is None else start}",
    )


def same_instance(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Instances differ if a part known to both sides differs."""
    return all(other[name] == value for name, value in one.items() if name in other)


def start_time(stat: Path) -> int | None:
    """Field 22 of a /proc/<pid>/stat: when the process started, in clock ticks since boot. None if it is gone."""
    try:
        text = stat.read_text("utf-8", "replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _line(path: Path) -> str:
    try:
        text = path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
    return "" if text in ("", "uninitialized") else text.splitlines()[0].strip()[:200]


def _root_uuid(root: Path) -> str:
    """UUID of the file system on /: the name of its device in /dev/disk/by-uuid, else the kernel's root=UUID=."""
    device, number = _root_device(root)
    target = os.path.realpath(root / device.lstrip("/")) if device.startswith("/dev/") else ""
    try:
        names = sorted(os.listdir(root / _BY_UUID))  # noqa: PTH208 - names are all we need
    except OSError:
        names = []
    for name in names:
        link = root / _BY_UUID / name
        if target and os.path.realpath(link) == target:
            return name
        try:
            found = link.stat().st_rdev
        except OSError:
            continue
        if found and f"{os.major(found)}:{os.minor(found)}" == number:
            return name
    if not device.startswith("/dev/"):
        return ""
    try:
        asked = re.search(r"(?:^|\s)root=UUID=(\S+)", (root / "proc/cmdline").read_text("utf-8", "replace"))
    except OSError:
        return ""
    return asked.group(1) if asked else ""


def _root_device(root: Path) -> tuple[str, str]:
    """Source and `major:minor` of the last mount on /; empty if unknown."""
    found = ("", "")
    try:
        lines = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return found
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) > 4 and len(tail) > 1 and fields[4] == "/":
            found = (tail[1], fields[2])
    return found
