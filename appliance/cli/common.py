"""What all commands share: the console, exit codes, errors as one line, tables, ages."""

import argparse
import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NoReturn, TextIO

from appliance.client import Client, Refused, Unreachable, Unusable, profile
from appliance.errors import ApplianceError

# Exit codes; the README lists them.
SUCCESS = 0
FAILED = 1  # the work failed
USAGE = 2  # the command was not understood, or what it was given is not valid
TIMEOUT = 3  # waited as long as it was told to
BLOCKED = 4  # it will never become complete as things stand
NOT_FOUND = 5
REFUSED = 6  # a conflict, or not allowed
UNREACHABLE = 7  # no appliance answers, or it cannot now
INTERNAL = 70  # a bug

# From an error to an exit code: what an appliance answered, and what was found here.
BY_STATUS = {400: USAGE, 401: REFUSED, 403: REFUSED, 404: NOT_FOUND, 409: REFUSED, 410: NOT_FOUND, 413: USAGE, 500: INTERNAL}
BY_CODE = {"invalid": USAGE, "too-large": USAGE, "not-found": NOT_FOUND, "gone": NOT_FOUND}


class Failure(Exception):
    """A command ends with one line and an exit code."""

    def __init__(self, message: str, hint: str = "", code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class Console:
    """Standard output for results, standard error for everything about them."""

    def __init__(self, args: argparse.Namespace, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.args = args
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.json = bool(getattr(args, "json", False))
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The appliance, as the flags, the environment or the profile name it."""
        if self._client is None:
            self._client = Client(profile(getattr(self.args, "url", None), getattr(self.args, "token", None)))
        return self._client

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()

    def print(self, *lines: str) -> None:
        """Results."""
        for line in lines:
            self.out.write(clean(line) + "\n")

    def note(self, *lines: str) -> None:
        """What is said beside the results; silent with --json."""
        if not self.json:
            for line in lines:
                self.err.write(clean(line) + "\n")

    def next(self, command: str, why: str = "") -> None:
        """Name the next likely command."""
        self.note(f"{why + '; ' if why else ''}next: {command}")

    def dump(self, value: Any) -> None:
        """Results as JSON."""
        self.out.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Results as columns, as wide as what is in them."""
        texts = [[clean("" if cell is None else str(cell)) for cell in row] for row in rows]
        widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(head)]
        for row in [[name.upper() for name in head], *texts]:
            self.out.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")

    def progress(self, text: str) -> None:
        """One line that is written over, on a terminal only."""
        if self.err.isatty() and not self.json:
            self.err.write(f"\r\x1b[K{clean(text)[: shutil.get_terminal_size().columns - 1]}")
            self.err.flush()

    def progress_over(self) -> None:
        """Take the progress line away."""
        if self.err.isatty() and not self.json:
            self.err.write("\r\x1b[K")
            self.err.flush()


def clean(text: str) -> str:
    """Text as a terminal may see it: what a machine printed or a file is named must not steer the terminal."""
    return "".join(
        one if one in "\n\t" or (ord(one) >= 32 and not 0x7F <= ord(one) < 0xA0 and not 0xD800 <= ord(one) < 0xE000) else _UNSEEN
        for one in text
    )


_UNSEEN = "\N{REPLACEMENT CHARACTER}"


def run_command(function: Callable[[argparse.Namespace, Console], int], args: argparse.Namespace) -> int:
    """Run one command: its exit code, with any error as one line (what, where, remedy) on standard error."""
    console = Console(args)
    try:
        code = function(args, console)
        console.out.flush()
        return code
    except Failure as error:
        return say(console, error.message, error.hint, error.code)
    except Refused as error:
        default = UNREACHABLE if error.status >= 500 else REFUSED
        if error.status == 401 and console.client.profile.token == "":
            error.hint = "give it with --token, in APPLIANCE_TOKEN, or in client.toml"
        code = FAILED if error.code == "corrupt" else BY_STATUS.get(error.status, default)  # damaged bytes are no bug
        return say(console, error.message, error.hint, code)
    except Unusable as error:
        return say(console, error.message, error.hint, USAGE)
    except Unreachable as error:
        return say(console, error.message, error.hint, UNREACHABLE)
    except ApplianceError as error:
        return say(console, error.message, error.hint, BY_CODE.get(error.code, REFUSED))
    except BrokenPipeError:
        sys.stdout = None
        return SUCCESS
    except KeyboardInterrupt:
        console.progress_over()
        return 130
    except Exception as error:  # noqa: BLE001 - the outermost place: a bug is one line too, and its details are asked for
        if os.environ.get("APPLIANCE_DEBUG"):
            traceback.print_exc(file=console.err)
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return say(console, f"internal error ({what})", "this is a bug: please report it; APPLIANCE_DEBUG=1 shows its details", INTERNAL)
    finally:
        console.close()


def say(console: Console, message: str, hint: str, code: int) -> int:
    """Print an error as `appliance: what; remedy` and return its exit code."""
    console.progress_over()
    console.err.write(clean(f"appliance: {message}" + (f"; {hint}" if hint else "")) + "\n")
    return code


def ago(ms: int | None, now: float | None = None) -> str:
    """How long ago, for people: `12 s ago`, `never`."""
    if ms is None:
        return "never"
    return f"{span((time.time() if now is None else now) - ms / 1000)} ago"


def since(instant: str | None) -> str:
    """How long ago an instant of the API (RFC 3339) was, for people."""
    return ago(None if instant is None else int(datetime.fromisoformat(instant).timestamp() * 1000))


def span(seconds: float) -> str:
    """A length of time for people: `12 s`, `3 min`, `5 h`, `2 d`."""
    seconds = max(0, seconds)
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {word}"
    return f"{int(seconds)} s"


def exact(seconds: int) -> str:
    """A length of time for people that loses nothing: `90 s`, `1 h`."""
    return next(
        (f"{seconds // size} {word}" for size, word in ((86400, "d"), (3600, "h"), (60, "min")) if not seconds % size), f"{seconds} s"
    )


def duration(text: str) -> int:
    """Seconds from `90`, `90s`, `5m`, `1h`, `2d`; for argparse."""
    sizes = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], text[-1]) if text[-1:] in sizes else (text, "s")
    try:
        return int(number) * sizes[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time (like 90s, 5m, 1h, 2d)") from None


def duration_or_none(text: str) -> int | None:
    """As `duration`, and `none` for no limit; for argparse."""
    return None if text == "none" else duration(text)


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """Bytes for people."""
    amount = float(number)
    for word in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {word}" if word == "B" else f"{amount:.1f} {word}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def up_to(most: int) -> Callable[[str], int]:
    """A number from 1 to `most`; for argparse."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return number


def confirm(console: Console, what: str, word: str, *, yes: bool) -> None:
    """Go on only if that is meant: `--yes`, or the word typed on a terminal. Raises Failure."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"this would {what}", "say --yes if that is meant")
    console.err.write(clean(f"{what}? type {word} to go on: "))
    console.err.flush()
    if sys.stdin.readline().strip() != word:
        raise Failure("nothing was changed")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with a remedy, and which takes options by their whole name only."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **how})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit code 2."""
        found = re.match(r"argument COMMAND: invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found:
            message = f"unknown command {found[1]!r}; there is: {found[2].replace(chr(39), '')}"
        message = message.replace("the following arguments are required: COMMAND", "a command is missing")
        self.exit(USAGE, clean(f"{self.prog}: {' '.join(message.split())}; see: {self.prog} --help") + "\n")


def command(
    parsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    what: str,
    function: Callable[[argparse.Namespace, Console], int],
    *,
    example: str,
    reads: bool = False,
    remote: bool = True,
) -> argparse.ArgumentParser:
    """Add a command with its help and an example; `reads` adds --json, `remote` says where the appliance is."""
    parser = parsers.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog="example:\n" + "\n".join("  " + line for line in example.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=function, prog=parser.prog)
    if remote:
        parser.add_argument("--url", help="the appliance (default: $APPLIANCE_URL, then the profile)", metavar="URL")
        parser.add_argument("--token", help="the token (default: $APPLIANCE_TOKEN, then the profile)", metavar="TOKEN")
    if reads:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def group(
    parsers: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Add a command that has commands of its own."""
    parser = parsers.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest=f"{name}_command")
