"""The one executable: appliance, command line and agent."""

import sys


def main() -> int:
    """Run the command line; its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from appliance import __version__

        print(f"appliance {__version__}")  # noqa: T201 - the fast path of the command line
        return 0
    if arguments[:1] == ["agent"]:
        from appliance.agent.__main__ import main as agent

        return agent(arguments[1:])
    from appliance.cli.main import main as command_line

    return command_line(arguments)


if __name__ == "__main__":
    sys.exit(main())
