"""Print what things cost on this machine. Numbers are for reading beside each other, not for passing or failing."""

import tempfile
from pathlib import Path

from . import documents, pushes
from .serving import appliance


def main() -> None:
    """Run all measurements on one new file."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with appliance(root) as (url, token):
            for lines in (pushes.run(url, token, root), documents.run(url, token)):
                print(*lines, "", sep="\n")


if __name__ == "__main__":
    main()
