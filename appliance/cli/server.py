"""`appliance server ...`: machines."""

import argparse
from typing import Any

from appliance.cli.common import SUCCESS, Console, Failure, command, confirm, group, since
from appliance.cli.finding import pages, server_path, standing


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `server` and its commands."""
    server = group(parsers, "server", "add, label, reset and remove machines")
    parser = command(
        server,
        "add",
        "add a machine, and say what to run there",
        _add,
        example="appliance server add web-1 --label rack3\nappliance server add old-1 --stock > os-collect-config.conf",
        reads=True,
    )
    _name(parser)
    parser.add_argument("--label", metavar="L", action="append", default=[], help="label it (may be repeated)")
    parser.add_argument("--stock", action="store_true", help="its agent is os-collect-config; prints a whole os-collect-config.conf")
    _collector(parser)

    parser = command(
        server, "list", "list the machines", _list, example="appliance server list\nappliance server list --label rack3", reads=True
    )
    parser.add_argument("--label", metavar="L", help="only those with this label")

    parser = command(server, "show", "show one machine and its deployments", _show, example="appliance server show web-1", reads=True)
    _name(parser)
    parser.add_argument("--stock", action="store_true", help="print only the os-collect-config.conf of one that was added with --stock")
    _collector(parser)

    parser = command(
        server,
        "label",
        "add labels to a machine, or take them away",
        _label,
        example="appliance server label web-1 --add rack4 --remove rack3",
        reads=True,
    )
    _name(parser)
    parser.add_argument("--add", metavar="L", action="append", default=[], help="add this label")
    parser.add_argument("--remove", metavar="L", action="append", default=[], help="take this label away")

    parser = command(server, "rename", "give a machine another name", _rename, example="appliance server rename web-1 web-01", reads=True)
    _name(parser)
    parser.add_argument("new", metavar="NEW", help="its new name; its deployments and its agent stay as they are")

    parser = command(server, "remove", "remove a machine with its deployments", _remove, example="appliance server remove web-1 --yes")
    _name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")

    parser = command(
        server,
        "token",
        "make a new join token, and print only that",
        _token,
        example="appliance server token web-1",
    )
    _name(parser)

    parser = command(
        server,
        "reset",
        "forget what was done on a machine, and run everything there again",
        _reset,
        example="appliance server reset web-1 --yes",
        reads=True,
    )
    _name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _collector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collector", choices=("request", "heat"), help="with --stock: how its agent asks (default: request)")


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the server, by name (or id)")


# ---------------------------------------------------------------------------------------------------- joining


def _add(args: argparse.Namespace, console: Console) -> int:
    _refuse_collector(args)
    made = console.client.post("/v1/servers", {"name": args.name, "labels": args.label, "stock": args.stock})
    if console.json:
        console.dump(made)
    elif args.stock:
        _configuration(console, made, args.collector)
    else:
        console.note(f"added {made['name']}; on that machine, as root (the token is good once, for 24 hours):")
        console.print(*join_lines(made))
        _elsewhere(console, made)
        console.next(f"appliance deploy NAME --server {made['name']} --script FILE")
    return SUCCESS


def _refuse_collector(args: argparse.Namespace) -> None:
    if args.collector and not args.stock:
        raise Failure("--collector goes with --stock", "leave it out, or see: appliance server add --help")


def _configuration(console: Console, made: Any, collector: str | None) -> None:
    """The configuration of a stock agent, as it is and alone on standard output."""
    console.out.write(made["heat_configuration" if collector == "heat" else "configuration"])
    console.note(f"this is /etc/os-collect-config.conf for {made['name']} (keep it private: it holds the machine's credential)")
    console.next(f"appliance deploy NAME --server {made['name']} --script FILE")


def _insecure(made: Any) -> str:
    return " --insecure-http" if made["url"].startswith("http:") and not made["loopback"] else ""


def join_lines(made: Any) -> list[str]:
    """What to run on a machine so that it joins and works, where the executable is installed."""
    flag = _insecure(made)
    return [f"appliance agent join {made['url']} {made['join_token']}{flag}", f"appliance agent run{flag}"]


def _elsewhere(console: Console, made: Any) -> None:
    """How to join from a machine without the executable, and from another than this one."""
    flag, url = _insecure(made), made["url"]
    agent = "python3 agent.pyz"
    console.note(
        "where `appliance` is not installed (Python 3.9 or later is enough):",
        f"  curl -fsS {url}/agent.pyz -o agent.pyz && {agent} join {url} {made['join_token']}{flag} && {agent} run{flag}",
    )
    if made["loopback"]:
        console.note(
            f"these lines work on this machine only: the appliance listens on loopback ({url}). To be reached by others, start it with:",
            "  appliance serve --listen ADDRESS:PORT --url https://NAME:PORT --tls-cert FILE --tls-key FILE",
            f"  (or --url http://NAME:PORT --insecure-http on a network that is yours alone); then: appliance server token {made['name']}",
        )


def _token(args: argparse.Namespace, console: Console) -> int:
    made = console.client.post(server_path(args.name) + "/token")
    console.print(made["join_token"])
    console.note(f"the join token of {made['name']}, good once, for 24 hours; the one before opens nothing any more. There:")
    console.note(*(f"  {line.replace(made['join_token'], 'TOKEN')}" for line in join_lines(made)))
    if made["loopback"]:
        console.note("(on this machine only: the appliance listens on loopback; see: appliance serve --help)")
    return SUCCESS


# ---------------------------------------------------------------------------------------------------- looking


def _list(args: argparse.Namespace, console: Console) -> int:
    found = list(pages(console, "/v1/servers", "servers", label=args.label))
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.next("appliance server add NAME", f"no server has the label {args.label!r}" if args.label else "there is no server yet")
        return SUCCESS
    from appliance.cli.status import agent_of, counted

    console.table(
        ["server", "agent", "seen", "labels", "deployments"],
        [(one["name"], agent_of(one), since(one["seen_at"]), " ".join(one["labels"]), counted(one["deployments"])) for one in found],
    )
    console.next(f"appliance server show {found[0]['name']}")
    return SUCCESS


def _show(args: argparse.Namespace, console: Console) -> int:
    _refuse_collector(args)
    path = server_path(args.name)
    if args.stock:
        _configuration(console, console.client.get(f"{path}/configuration"), args.collector)
        return SUCCESS
    found = console.client.get(path)
    there = console.client.get("/v1/deployments", server=found["id"])["deployments"]
    if console.json:
        console.dump({**found, "deployments": there, "counts": found["deployments"]})
        return SUCCESS
    from appliance.cli.status import agent_of

    lines = [("agent", agent_of(found)), ("last seen", since(found["seen_at"])), ("labels", " ".join(found["labels"]) or "none")]
    if found["agent"]:
        lines.append(("hooks", ", ".join(found["agent"]["hooks"]) or "none"))
    lines += [("added", since(found["created_at"])), ("id", found["id"])]
    console.print(found["name"], *(f"  {name:<10} {value}" for name, value in lines))
    if there:
        console.print("")
        console.table(
            ["deployment", "stands", "generation", "policy", ""],
            [(one["name"] or one["id"], standing(one), one["generation"]["number"], one["policy"], one["sentence"]) for one in there],
        )
    if found["trouble"]:
        console.note(f"nothing runs there: {found['trouble']['message']}")
        console.next(f"appliance server reset {found['name']}", "if everything shall run again there")
    elif found["kind"] == "unenrolled":
        console.next(f"appliance server token {found['name']}", "its machine has not joined")
    elif found["kind"] == "stock" and found["seen_at"] is None:
        console.next(f"appliance server show {found['name']} --stock", "its agent has never asked")
    else:
        console.next(f"appliance deploy NAME --server {found['name']} --script FILE")
    return SUCCESS


# ---------------------------------------------------------------------------------------------------- changing


def _label(args: argparse.Namespace, console: Console) -> int:
    return _edited(console, args.name, {"add_labels": args.add, "drop_labels": args.remove})


def _rename(args: argparse.Namespace, console: Console) -> int:
    return _edited(console, args.name, {"name": args.new}, renamed=args.name)


def _edited(console: Console, name: str, edit: dict[str, Any], renamed: str = "") -> int:
    found = console.client.patch(server_path(name), edit)
    if console.json:
        console.dump(found)
    if renamed:
        console.note(f"renamed {renamed} to {found['name']}")
    else:
        console.note(f"{found['name']}: labels {' '.join(found['labels']) or 'none'}")
    console.next(f"appliance server show {found['name']}")
    return SUCCESS


def _remove(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(server_path(args.name))
    number = sum(count for word, count in found["deployments"].items() if word != "held")
    confirm(console, f"remove {found['name']} with {_counted(number)}", found["name"], yes=args.yes)
    console.client.delete(server_path(found["id"]))
    console.note(f"removed {found['name']} with {_counted(number)}; its tokens open nothing any more")
    console.next("appliance server list")
    return SUCCESS


def _reset(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(server_path(args.name))
    number = sum(count for word, count in found["deployments"].items() if word != "held")
    going = sum(found["deployments"].get(word, 0) for word in ("granted", "running"))
    closed = f"; {going} that may be running now are closed as interrupted" if going else ""
    what = f"forget what was done on {found['name']}: {_counted(number)} will run again on the next machine that speaks for it{closed}"
    confirm(console, what, found["name"], yes=args.yes)
    done = console.client.post(server_path(found["id"]) + "/reset")
    if console.json:
        console.dump(done)
    console.note(f"reset {found['name']}: {_counted(done['deployments'])} will run again")
    console.next("appliance status")
    return SUCCESS


def _counted(number: int) -> str:
    return "1 deployment" if number == 1 else f"{number} deployments"
