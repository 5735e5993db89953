"""`appliance status`."""

import argparse
import time
from datetime import datetime
from typing import Any

from appliance.cli.common import SUCCESS, Console, count, since
from appliance.cli.finding import label, pages, servers, summary

WATCH_SECONDS = 2
SILENT_SECONDS = 120
SHOWN = 8

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
    unheard = {one["name"]: one for one in there if one["kind"] != "unenrolled" and one["trouble"] is None and _is_silent(one)}
    unfinished: list[Any] = []
    if any(one["deployments"].get("blocked") or (one["name"] in unheard and one["deployments"]) for one in there):
        unfinished = list(pages(console, "/v1/deployments", "deployments", status="IN_PROGRESS"))
        attention += [one for one in unfinished if one["phase"] == "blocked"]
    silent = [
        {"server": name, "kind": unheard[name]["kind"], "seen_at": unheard[name]["seen_at"], "waiting": waiting}
        for name, waiting in _waiting(unfinished, set(unheard)).items()
    ]
    for server in there:
        if server["deployments"].get("held"):
            here = console.client.get("/v1/deployments", server=server["id"])["deployments"]
            attention += [one for one in here if one["held"] and one["status"] == "COMPLETE"]
    health = console.client.get("/healthz")
    there.sort(key=_rank)
    return {"servers": there, "attention": attention, "silent": silent, "commit": health["commit"], "insecure": health["insecure"]}


def _is_silent(server: Any) -> bool:
    """Whether an agent was not heard for so long that it is probably not running."""
    seen = server["seen_at"]
    return seen is None or time.time() - datetime.fromisoformat(seen).timestamp() > SILENT_SECONDS


def _waiting(unfinished: list[Any], silent: set[str]) -> dict[str, list[str]]:
    """What waits for each of these servers, by name: what is to run there, and what is blocked on that, in the end."""
    by_id = {one["id"]: one for one in unfinished}
    found: dict[str, list[str]] = {}
    for one in unfinished:
        queue, seen = [one["id"]], set[str]()
        while queue:
            id = queue.pop()
            if id in seen or id not in by_id:
                continue
            seen.add(id)
            if by_id[id]["phase"] == "blocked":
                queue += [blocker["id"] for blocker in by_id[id]["blocked_on"]]
            elif by_id[id]["server"]["name"] in silent:
                names = found.setdefault(by_id[id]["server"]["name"], [])
                names += [label(one)] if label(one) not in names else []
    return found


def _say_silent(console: Console, one: Any) -> None:
    waiting = one["waiting"]
    some = ", ".join(waiting[:SHOWN]) + (f" and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else "")
    waits = "waits" if len(waiting) == 1 else "wait"
    seen = "was never seen" if one["seen_at"] is None else f"was last seen {since(one['seen_at'])}"
    console.print("", f"{one['server']} {seen}; {count(len(waiting), 'deployment')} {waits} for it: {some}")
    start = "os-collect-config" if one["kind"] == "stock" else "appliance agent run"
    console.print(f"  start the agent there: {start}")


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
            console.print(f"  if that is meant, and everything shall run again there: appliance server reset {one['name']}")
    for one in found["silent"]:
        _say_silent(console, one)
    if attention:
        console.print("", *(f"{label(one)}: {summary(one)}" for one in attention))
    console.next(_next(there, attention, found["silent"]))


def _next(there: list[Any], attention: list[Any], silent: list[Any]) -> str:
    troubled = [one for one in there if one["trouble"] is not None]
    if troubled:
        return f"appliance server show {troubled[0]['name']}"
    failed = [one for one in attention if one["status"] == "FAILED"]
    if silent and not failed:
        return f"appliance why {silent[0]['waiting'][0]}"
    if attention and not attention[0]["held"]:
        return f"appliance why {label(attention[0])}"
    if attention:
        return f"appliance rerun {label(attention[0])}"
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
