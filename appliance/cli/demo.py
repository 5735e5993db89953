"""`appliance demo`: the whole product in one go, with real processes, counting what runs."""

import argparse
import datetime
import shlex
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any, NoReturn

from appliance.cli.common import FAILED, SUCCESS, Console, Failure, command
from appliance.cli.scratch import Done, Scratch

MACHINES = {"db-1": ("lab", "db"), "web-1": ("lab", "web"), "web-2": ("lab", "web")}
SHOWN_LINES = 12


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = command(
        parsers,
        "demo",
        "show the whole of it in a scratch directory, and count what runs",
        demo,
        example="appliance demo --keep",
        remote=False,
    )
    parser.add_argument("--keep", action="store_true", help="leave the scratch directory, to look around in")


def demo(args: argparse.Namespace, console: Console) -> int:
    """Play the story in a lab of its own; 1 if a script ran more or less often than it should have."""
    began = time.monotonic()
    with _told_to_stop(), Scratch(keep=args.keep) as lab:
        story = _Story(lab, console)
        if args.keep:
            console.print(f"in {lab.directory}, which is kept")
        story.play()
        story.table()
    console.print("", f"{time.monotonic() - began:.0f} s; " + ("nothing is left behind" if not args.keep else f"{lab.directory} is kept"))
    if story.wrong:
        console.print(*(f"WRONG: {line}" for line in story.wrong))
        return FAILED
    return SUCCESS


@contextmanager
def _told_to_stop() -> Iterator[None]:
    """Being told to end is taken as Ctrl-C is: with everything put away first."""

    def stop(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


class _Story:
    """What is done, and how often each script should have run by now."""

    def __init__(self, lab: Scratch, console: Console) -> None:
        self.lab = lab
        self.console = console
        self.expected: Counter[str] = Counter()
        self.wrong: list[str] = []

    def play(self) -> None:
        """From nothing to a rollback."""
        for act in (
            self._begin,
            self._push,
            self._deploy,
            self._add_one,
            self._interrupt,
            self._change_a_file,
            self._switch_by_mistake,
            self._roll_back,
        ):
            act()
            self._check(act.__name__)

    # ------------------------------------------------------------------------------------------ the acts

    def _begin(self) -> None:
        self._title("An appliance, and three machines with their agents")
        self._say("appliance serve --db lab.db --listen 127.0.0.1:0 &")
        url = self.lab.serve()
        self._result(*self.lab.log("appliance.log").splitlines())
        for name, labels in MACHINES.items():
            self.lab.machine(name)
            self._run("server", "add", name, *(word for label in labels for word in ("--label", label)), show=0)
            token = self._run("server", "token", name, quiet=True).out.strip()
            self._say(f"appliance server token {name}")
            self._say(f"appliance agent join {url} TOKEN", name)
            joined = self.lab.join(name, url, token)
            self._result(*(joined.out + joined.err).splitlines())
            if joined.code:
                raise Failure(f"{name} could not join", code=FAILED)
        self._start_agents()

    def _push(self) -> None:
        self._title("A plan is a directory; pushing it changes nothing, switching to it is one commit")
        with resources.as_file(resources.files("appliance") / "example") as example:
            shutil.copytree(example, self.lab.directory / "example")
        self._run("plan", "push", "example")
        self._run("plan", "switch", "example", "1")

    def _deploy(self) -> None:
        self._title("What each machine must run; the sites wait for the database on another machine")
        self._run("deploy", "base", "--server", "label:lab", *self._script("base"), show=4)
        self._run("deploy", "database", "--server", "db-1", *self._script("database"), "--after", "db-1/base", show=2)
        self._run(
            *("deploy", "site", "--server", "label:web", *self._script("site")),
            *("--after", "db-1/database", "--input", "database=db-1", "--wait"),
        )
        self.expected.update(["db-1/base", "web-1/base", "web-2/base", "db-1/database", "web-1/site", "web-2/site"])
        self._run("wait", "web-1/base", "web-2/base", show=2)
        self._run("status", show=20)
        ended = self._of("db-1/database")["since"]
        for site in ("web-1/site", "web-2/site"):
            started = self.lab.client.get(f"/v1/deployments/{site}/runs")["runs"][0]["started_at"]
            if started < ended:
                self.wrong.append(f"{site} started at {started}, before its dependency was complete at {ended}")

    def _add_one(self) -> None:
        self._title("One more deployment: nothing else runs again")
        self._run("deploy", "check", "--server", "web-1", *self._script("check"), "--input", "database=db-1", "--wait")
        self.expected["web-1/check"] += 1

    def _interrupt(self) -> None:
        self._title("An agent is killed in the middle of a run: reported as interrupted, not repeated, not lost")
        deploy = ("deploy", "backup", "--server", "db-1", *self._script("backup"))
        self._run(*deploy, "--input", "seconds=600", show=2)
        self.expected["db-1/backup"] += 1
        self.lab.until("the backup to run", lambda: self._of("db-1/backup")["phase"] == "running" and self._counts()["db-1/backup"] == 1)
        self._say("kill -9 AGENT", "db-1")
        self.lab.stop("db-1", signal.SIGKILL)
        self._say("appliance agent run &", "db-1")
        self.lab.start("db-1")
        self.lab.until("the interrupted run to be reported", lambda: self._of("db-1/backup")["status"] == "FAILED")
        found = self._of("db-1/backup")
        if found["reason"] != "interrupted":
            self.wrong.append(f"db-1/backup is FAILED {found['reason']!r}, and should be 'interrupted'")
        self._run("why", "db-1/backup", show=8)
        self._run(*deploy, "--input", "seconds=0", "--wait")
        self.expected["db-1/backup"] += 1

    def _change_a_file(self) -> None:
        self._title("One file changes: exactly its users run again, in the commit of the switch")
        script = self.lab.directory / "example" / "scripts" / "site.sh"
        script.write_text(script.read_text().replace("<title>Shop</title>", "<title>Shop, now with pears</title>"))
        self._say("sed -i 's/Shop/Shop, now with pears/' example/scripts/site.sh")
        self._run("plan", "push", "example", "--switch")
        self._run("wait", "web-1/site", "web-2/site", show=4)
        self.expected.update(["web-1/site", "web-2/site"])

    def _switch_by_mistake(self) -> None:
        self._title("A switch by mistake and back while the agents are away: nothing runs when they return")
        for name in MACHINES:
            self._say("kill AGENT", name)
            self.lab.stop(name)
        self._run("plan", "switch", "example", "1")
        self._run("plan", "switch", "example", "2")
        self._start_agents()

    def _roll_back(self) -> None:
        self._title("Roll back: the users of what differs run again")
        self._run("plan", "rollback", "example")
        self._run("wait", "web-1/site", "web-2/site", show=4)
        self.expected.update(["web-1/site", "web-2/site"])
        for name in ("web-1", "web-2"):
            if "pears" in (self.lab.root(name) / "www/index.html").read_text():
                self.wrong.append(f"{name} still has the page of version 2")
        self._run("status", show=20)

    # ------------------------------------------------------------------------------------------ what they are made of

    def _script(self, name: str) -> tuple[str, ...]:
        return "--plan", "example", "--path", f"scripts/{name}.sh"

    def _start_agents(self) -> None:
        """Start every agent, and wait until each has read its document."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
        for name in MACHINES:
            self._say("appliance agent run &", name)
            self.lab.start(name)
        for name in MACHINES:
            self.lab.until(f"the agent of {name}", lambda name=name: (self._server(name)["seen_at"] or "") > now)  # type: ignore[misc]
        time.sleep(0.5)  # for what should not happen
        self._result("in contact: " + ", ".join(MACHINES))

    def _server(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.client.get(f"/v1/servers/{name}")
        return found

    def _of(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.lab.client.get(f"/v1/deployments/{name}")
        return found

    def _counts(self) -> Counter[str]:
        """How often each script ran, by its own count."""
        found: Counter[str] = Counter()
        for name in MACHINES:
            log = self.lab.root(name) / "log"
            found.update(f"{name}/{line}" for line in (log.read_text().splitlines() if log.exists() else ()))
        return found

    def _check(self, act: str) -> None:
        counted = self._counts()
        bad = [name for name in sorted(self.expected | counted) if self.expected[name] != counted[name]]
        self.wrong += [f"{act.strip('_')}: {name} ran {counted[name]} times instead of {self.expected[name]}" for name in bad]
        self._result(f"counted: {sum(counted.values())} runs in all" + (", as expected" if not bad else f"; WRONG: {', '.join(bad)}"))

    def table(self) -> None:
        """Expected and counted, for each script of each machine."""
        counted = self._counts()
        self._title("What ran, by the scripts' own count")
        rows = [
            (f"{name}.sh", self.expected[name], counted[name], "right" if self.expected[name] == counted[name] else "WRONG")
            for name in sorted(self.expected | counted)
        ]
        self.console.table(("script", "expected", "counted", "which is"), rows)

    def _run(self, *words: str, show: int = SHOWN_LINES, quiet: bool = False) -> Done:
        """Type a command; one that fails ends the story. `show` lines of what it says are shown."""
        if not quiet:
            self._say("appliance " + shlex.join(words))
        done = self.lab.command(*words)
        lines = (done.out + done.err).splitlines()
        if not quiet:
            self._result(*(lines if done.code else lines[:show]))
            if len(lines) > show > 0 and not done.code:
                self._result("...")
        if done.code:
            raise Failure(f"`appliance {shlex.join(words)}` ended with exit code {done.code}", code=FAILED)
        return done

    def _title(self, text: str) -> None:
        self.console.print("", f"# {text}")
        self.console.out.flush()

    def _say(self, text: str, machine: str = "") -> None:
        self.console.print(f"{machine}$ {text}")
        self.console.out.flush()

    def _result(self, *lines: str) -> None:
        self.console.print(*(f"  {line.replace(str(self.lab.directory), '.')}" for line in lines))
        self.console.out.flush()
