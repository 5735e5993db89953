"""The command line: `appliance COMMAND ...`."""

import argparse
import difflib
import importlib
import sys

from appliance import __version__
from appliance.cli.common import USAGE, Parser, clean, run_command

# In the order the help shows them; the daily verbs first. A room is imported only when one of its commands is asked for, or for help.
ROOMS: dict[str, tuple[str, ...]] = {
    "appliance.cli.daily": ("status", "why", "log", "wait", "rerun", "cancel"),
    "appliance.cli.deploy": ("deploy",),
    "appliance.cli.deployment": ("deployment",),
    "appliance.cli.config": ("config",),
    "appliance.cli.plan": ("plan",),
    "appliance.cli.server": ("server",),
    "appliance.cli.token": ("token", "audit"),
    "appliance.cli.serve": ("serve",),
    "appliance.cli.heat": ("heat",),
    "appliance.cli.demo": ("demo",),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "every day": ("status", "why", "log", "wait", "rerun", "cancel"),
    "say what must run": ("deploy", "deployment", "config", "plan"),
    "machines and people": ("server", "agent", "token", "audit"),
    "the appliance itself": ("serve", "heat", "demo"),
}

SHORT = """\
appliance: say what every machine must run, and know what came of it

  appliance serve                           be the appliance, on one host
  appliance server add web-1                add a machine (prints what to run there)
  appliance deploy hello --script hello.sh  say what it must run
  appliance status                          see where everything stands

try it without a machine: appliance demo; all commands: appliance --help
"""

EPILOG = """\
Deployments are named SERVER/NAME, or by id. `appliance COMMAND --help` shows the options of a command, and an example.

settings: flags, then $APPLIANCE_URL and $APPLIANCE_TOKEN, then client.toml ($APPLIANCE_CONFIG, else ~/.config/appliance/client.toml)

exit codes:
  0 success     2 usage or invalid input     4 blocked for ever     6 refused         70 a bug
  1 failure     3 timeout                    5 not found            7 unreachable
"""

AGENT = "be the agent of a machine: join, run, status"


class Top(Parser):
    """The parser of `appliance` itself: its help shows the commands by what they are for."""

    helps: dict[str, str]

    def format_help(self) -> str:
        """All commands in groups, one line each."""
        lines = ["usage: appliance COMMAND ...", "", "Say what every machine must run, and know what came of it."]
        for title, names in GROUPS.items():
            lines += ["", f"{title}:", *(f"  {name:<11} {self.helps[name]}" for name in names)]
        return "\n".join([*lines, "", EPILOG])


def parser(first: str | None) -> Top:
    """The parser; with `first` a known command, only its room is loaded."""
    top = Top(prog="appliance", formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--version", action="version", version=f"appliance {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command", parser_class=Parser)
    for room in [room for room, names in ROOMS.items() if first in names] or list(ROOMS):
        importlib.import_module(room).register(commands)
    top.helps = {name: _plain(one.description or "") for name, one in commands.choices.items()} | {"agent": AGENT}
    return top


def _plain(description: str) -> str:
    """The first sentence, as it stands in a list."""
    first = description.partition(". ")[0].removesuffix(".")
    return first[:1].lower() + first[1:]


def main(arguments: list[str]) -> int:
    """Parse and run; the exit code."""
    if not arguments:
        sys.stderr.write(SHORT)
        return USAGE
    if arguments[:2] == ["help", "agent"]:
        sys.stderr.write("appliance: the agent has a help of its own; see: appliance agent --help\n")
        return USAGE
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    first = arguments[0] if not arguments[0].startswith("-") else None
    if first is None and arguments[0] not in ("-h", "--help", "--version"):
        sys.stderr.write(clean(f"appliance: the command comes first, then {arguments[0]}; see: appliance --help") + "\n")
        return USAGE
    known = [name for names in ROOMS.values() for name in names]
    if first is not None and first not in known:
        near = difflib.get_close_matches(first, [*known, "agent"], 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        sys.stderr.write(clean(f"appliance: unknown command {first!r}{meant}; see: appliance --help") + "\n")
        return USAGE
    args, unknown = parser(first).parse_known_args(arguments)
    if unknown:
        sys.stderr.write(clean(f"{args.prog}: unknown argument {' '.join(unknown)}; see: {args.prog} --help") + "\n")
        return USAGE
    return run_command(args.run, args)
