"""The agent's commands: join, run, status."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
from typing import Any, NoReturn, Sequence

from . import VERSION, errors, facts, files, hooks, identity, runner, status
from . import settings as setting
from .errors import AgentError, Refused, Usage
from .journal import Journal
from .log import say
from .loop import Agent
from .settings import Settings
from .wire import Client

EXAMPLES = """
examples:
  %(prog)s join https://lab.example:8642 TOKEN    (TOKEN as `appliance server token NAME` prints it; `-` reads it)
  %(prog)s run
  %(prog)s run --one-pass
  %(prog)s status --json

exit codes:
  0 success   1 a run ended FAILED   2 usage   5 not joined yet   6 refused   7 the appliance cannot be reached

environment:
  APPLIANCE_AGENT_STATE   state directory (default /var/lib/appliance-agent for root, else under ~/.local/state)
  APPLIANCE_AGENT_HOOKS   hooks directories, colon-separated
  APPLIANCE_AGENT_ROOT    where machine facts are read below (default /)
"""


def main(argv: list[str] | None = None, prog: str = "appliance agent") -> int:
    """Run one command; its exit code. Errors are one line with a remedy on standard error."""
    umask = os.umask(0o077)
    try:
        asked = _parser(prog).parse_args(argv)
        known = setting.read(os.environ, state=asked.state, insecure_http=asked.insecure_http, umask=umask)
        return int(asked.command(asked, known))
    except AgentError as error:
        say(error.message + (f"\n  {error.hint}" if error.hint else ""))
        return error.exit_code
    except (OSError, sqlite3.Error) as error:
        say(str(error))
        return errors.FAILED
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(umask)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with a remedy, and which takes options by their whole name only."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **how})

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; exit code 2."""
        self.exit(errors.USAGE, f"{self.prog}: {' '.join(message.split())}; see: {self.prog} --help\n")


def _parser(prog: str) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = _Parser(prog=prog, description="The agent of one machine.", epilog=EXAMPLES, formatter_class=raw)
    common = _Parser(add_help=False)
    for parser, unset in ((top, None), (common, argparse.SUPPRESS)):  # before the command or after it
        parser.add_argument("--state", metavar="DIR", default=unset, help="state directory")
        parser.add_argument(
            "--insecure-http",
            action="store_true",
            default=False if unset is None else unset,
            help="allow http to another machine",
        )
    top.set_defaults(command=lambda _asked, _settings: _usage(top), prog=prog)
    top.add_argument("--version", action="version", version=f"agent {VERSION}")
    verbs = top.add_subparsers(metavar="COMMAND", parser_class=_Parser)

    def verb(name: str, what: str, example: str) -> argparse.ArgumentParser:
        text = what[0].upper() + what[1:] + "."
        epilog = f"example:\n  {prog} {name} {example}".rstrip()
        return verbs.add_parser(name, help=what, description=text, epilog=epilog, formatter_class=raw, parents=[common])

    join = verb("join", "make this machine a server of an appliance", "https://lab.example:8642 TOKEN")
    join.add_argument("url", metavar="URL")
    join.add_argument("token", metavar="TOKEN", help="the join token, or - to read it from standard input")
    join.add_argument("--name", help="refuse if the token is that of a server with another name")
    join.set_defaults(command=_join)
    run = verb("run", "run what the document says, until stopped", "--one-pass")
    run.add_argument("--one-pass", action="store_true", help="do what there is to do, deliver the results, and exit")
    run.set_defaults(command=_run)
    show = verb("status", "show what this machine ran and what is not delivered yet", "--json")
    show.add_argument("--json", action="store_true")
    show.set_defaults(command=_status)
    return top


def _usage(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return errors.USAGE


def _join(asked: argparse.Namespace, settings: Settings) -> int:
    token = (sys.stdin.readline() if asked.token == "-" else asked.token).strip()  # noqa: S105 - that is no password
    client = Client(asked.url, insecure_http=settings.insecure_http, limit=settings.request)
    if not token or not token.isascii() or not token.isprintable():
        raise Usage("that is no join token", "`appliance server token NAME` prints one")
    files.private_directory(settings.state)
    lock = files.Lock(settings.lock)
    journal = _journal(settings)
    try:
        found = facts.gather(settings.root)
        answer = identity.join(client, token, found, journal, hooks.groups(settings.hooks))
        if not answer.good:
            raise Refused(f"the appliance refused to let this machine join: {answer.reason}")
        me = identity.from_answer(client.url, answer.object())
        if asked.name and asked.name != me.name:
            raise Refused(f"this token is that of server {me.name}, not {asked.name}; nothing was kept")
        identity.moved_in(settings, journal, me, found)
    finally:
        journal.close()
        lock.release()
    print(f"joined {me.url} as {me.name}; next: {_again(asked, 'run')}")
    return errors.SUCCESS


def _run(asked: argparse.Namespace, settings: Settings) -> int:
    if not settings.state.is_dir():
        raise errors.NotJoined(f"{settings.state} does not exist", "run `agent join URL TOKEN` first")
    files.private_directory(settings.state)
    lock = files.Lock(settings.lock)
    journal = _journal(settings)
    try:
        files.private_directory(settings.runs)
        me = identity.load(settings, journal)
        found = facts.gather(settings.root)
        agent = Agent(settings, journal, found, me)
        stoppers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(number, lambda *_: agent.stop()) for number in stoppers]
        # the kernel may hand a signal to any thread, and the handler runs in this one, which sleeps: the byte is what wakes it
        bell = signal.set_wakeup_fd(agent.stopper, warn_on_full_buffer=False)
        try:
            runner.settle(settings, journal, found)
            runner.settle_unknown(settings, journal)
            return agent.one_pass() if asked.one_pass else agent.run()
        finally:
            signal.set_wakeup_fd(bell)
            for number, handler in zip(stoppers, before):
                signal.signal(number, handler)
            agent.close()
    finally:
        journal.close()
        lock.release()


def _status(asked: argparse.Namespace, settings: Settings) -> int:
    found = status.collect(settings)
    print(json.dumps(found, indent=2) if asked.json else status.show(found))
    return errors.SUCCESS


def _journal(settings: Settings) -> Journal:
    journal = Journal(settings.journal)
    if journal.set_aside is not None:
        say(f"the journal was broken and is now {journal.set_aside}; starting with what the appliance remembers")
    return journal


def _again(asked: argparse.Namespace, verb: str) -> str:
    words: Sequence[str] = [
        asked.prog,
        verb,
        *(["--state", asked.state] if asked.state else []),
        *(["--insecure-http"] if asked.insecure_http else []),
    ]
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
