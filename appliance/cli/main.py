"""The command line: `appliance COMMAND ...`."""

import argparse
import importlib

from appliance import __version__
from appliance.cli.common import run_command

# In the order the help shows them; the daily verbs first. A room is imported only when one of its commands is asked for, or for help.
ROOMS: dict[str, tuple[str, ...]] = {
    "appliance.cli.serve": ("serve",),
    "appliance.cli.demo": ("demo",),
    "appliance.cli.daily": ("status", "why", "log", "wait", "rerun"),
    "appliance.cli.plan": ("plan",),
    "appliance.cli.server": ("server",),
    "appliance.cli.deploy": ("deploy",),
    "appliance.cli.deployment": ("deployment", "config"),
    "appliance.cli.token": ("token", "audit"),
}

CODES = (
    "exit codes: 0 success, 1 the work failed, 2 usage or invalid input, 3 timeout, 4 blocked for ever, 5 not found, 6 refused, "
    "7 unreachable, 70 a bug"
)


def parser(first: str | None) -> argparse.ArgumentParser:
    """The parser; with `first` a known command, only its room is loaded."""
    top = argparse.ArgumentParser(
        prog="appliance",
        description="Say what every machine must run, and know what came of it.",
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"appliance {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    wanted = [room for room, names in ROOMS.items() if first in names] or list(ROOMS)
    for room in wanted:
        importlib.import_module(room).register(commands)
    if wanted == list(ROOMS):
        commands.add_parser("agent", help="be the agent of a machine: join, run, status (see: appliance agent --help)")
    return top


def main(arguments: list[str]) -> int:
    """Parse and run; the exit code."""
    first = next((one for one in arguments if not one.startswith("-")), None)
    args = parser(first).parse_args(arguments)
    return run_command(args.run, args)
