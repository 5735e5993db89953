"""`appliance status`."""

import argparse
import time
from typing import Any

from appliance.cli.common import SUCCESS, Console, since
from appliance.cli.finding import label, pages, servers, summary

WATCH_SECONDS = 2

# Failures first; the words are statuses, and phases of what is in progress.
ORDER = ("FAILED", "blocked", "overdue", "rebooting", "running", "granted", "delivered", "pending", "COMPLETE", "held")


def status(args: argparse.Namespace, console: Console) -> int:
    """Show where everything stands, once or until interrupted."""
    while True:
        found = _collect(console)
        if args.watch and console.out.isatty() and not console.json:
            console.out.write("\x1b[H\x1b[J")
        if console.json:
            console.dump(found)
        else:
            _show(console, found)
        if not args.watch:
            return SUCCESS
        console.out.flush()
        time.sleep(WATCH_SECONDS)


def _collect(console: Console) -> dict[str, Any]:
    """Servers, and the deployments that need a look: those are fetched only where the counts say that there are some."""
    there = servers(console)
    attention: list[Any] = []
    if any(one["deployments"].get("FAILED") for one in there):
        attention += pages(console, "/v1/deployments", "deployments", status="FAILED")
    if any(one["deployments"].get("blocked") for one in there):
        waiting = pages(console, "/v1/deployments", "deployments", status="IN_PROGRESS")
        attention += [one for one in waiting if one["phase"] == "blocked"]
    health = console.client.get("/healthz")
    there.sort(key=_rank)
    return {"servers": there, "attention": attention, "commit": health["commit"], "insecure": health["insecure"]}


def _rank(server: Any) -> tuple[bool, bool, bool, str]:
    counts = server["deployments"]
    return server["trouble"] is None, not counts.get("FAILED"), not counts.get("blocked"), server["name"]


def agent_of(server: Any) -> str:
    """Which agent a server has, in a word or two."""
    if server["agent"] is not None and server["agent"]["version"]:
        return f"agent {server['agent']['version']}"
    return {"unenrolled": "not joined", "stock": "stock"}.get(server["kind"], str(server["kind"]))


def counted(counts: dict[str, int]) -> str:
    """How many deployments stand where, failures first."""
    words = sorted(counts, key=lambda word: ORDER.index(word) if word in ORDER else len(ORDER))
    return ", ".join(f"{counts[word]} {word.lower()}" for word in words) or "none"


def _show(console: Console, found: dict[str, Any]) -> None:
    there, attention = found["servers"], found["attention"]
    if found["insecure"]:
        console.note("plain http on a network (--insecure-http): tokens can be read on the way")
    if not there:
        console.print("no servers yet")
        console.next("appliance server add NAME")
        return
    console.table(
        ["server", "agent", "seen", "deployments"],
        [(one["name"], agent_of(one), since(one["seen_at"]), counted(one["deployments"])) for one in there],
    )
    for one in there:
        if one["trouble"] is not None:
            console.print("", f"{one['name']}: nothing runs there: {one['trouble']['message']}")
            console.print(
                f"  to go on there: appliance server keep {one['name']}; to run everything again: appliance server reset {one['name']}"
            )
    if attention:
        console.print("", *(f"{label(one)}: {summary(one)}" for one in attention))
    console.next(_next(there, attention))


def _next(there: list[Any], attention: list[Any]) -> str:
    troubled = [one for one in there if one["trouble"] is not None]
    if troubled:
        return f"appliance server show {troubled[0]['name']}"
    if attention:
        return f"appliance why {label(attention[0])}"
    totals: dict[str, int] = {}
    for one in there:
        for word, number in one["deployments"].items():
            totals[word] = totals.get(word, 0) + number
    if not totals:
        return "appliance deploy NAME --script FILE"
    if set(totals) - {"COMPLETE", "held"}:
        fresh = [one["name"] for one in there if one["kind"] == "unenrolled" and one["deployments"]]
        return f"appliance server token {fresh[0]}" if fresh else "appliance status --watch"
    return "appliance deployment list"
