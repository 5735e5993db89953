"""agent.pyz: the agent's folder as one file that any Python 3.9 or later runs."""

import io
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable

_MAIN = "import sys\n\nfrom appliance_agent.__main__ import main\n\nsys.exit(main())\n"
_TIME = (1980, 1, 1, 0, 0, 0)


def build() -> bytes:
    """The file's bytes; the same for the same agent, whenever it is built."""
    held = io.BytesIO()
    held.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.encode())
        for name, source in sorted(_sources(files("appliance").joinpath("agent"), "appliance_agent")):
            _add(archive, name, source)
    return held.getvalue()


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        if one.is_dir() and one.name != "__pycache__":
            found += _sources(one, f"{prefix}/{one.name}")
        elif one.name.endswith(".py"):
            found.append((f"{prefix}/{one.name}", one.read_bytes()))
    return found


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)
