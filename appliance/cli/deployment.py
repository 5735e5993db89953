"""`appliance deployment ...`: looking at what must run, changing and ending it one by one."""

import argparse
from typing import Any

from appliance.cli.common import SUCCESS, Console, Failure, command, confirm, exact, group, since, size
from appliance.cli.deploy import after, said, terms_flags
from appliance.cli.finding import config_id, deployment_path, deployments, label, pages, standing, summary
from appliance.cli.finding import deployment as find
from appliance.cli.statement import body_flags, files, given, given_flags, output, statement
from appliance.client import Refused, part

STATUSES = ("IN_PROGRESS", "COMPLETE", "FAILED")


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `deployment` and its commands."""
    verbs = group(parsers, "deployment", "list, show, update and delete deployments")
    parser = command(
        verbs, "list", "list deployments", _list, example="appliance deployment list --server web-1 --status FAILED", reads=True
    )
    parser.add_argument("--server", metavar="S", help="only those of this server")
    parser.add_argument("--status", type=_status, metavar="STATUS", help="only those: complete, failed or in_progress")

    parser = command(
        verbs, "show", "show what a deployment is and where it stands", _show, example="appliance deployment show web-1/base", reads=True
    )
    _one(parser)

    parser = command(
        verbs,
        "update",
        "change a deployment; what is not said stays",
        _update,
        example="appliance deployment update web-1/base --input who=you --timeout 10m",
        reads=True,
    )
    _one(parser)
    body_flags(parser, config=True)
    given_flags(parser)
    parser.add_argument("--drop", metavar="K", action="append", default=[], help="take an input away")
    terms_flags(parser)
    parser.add_argument("--no-interval", action="store_true", help="take the interval away")
    parser.add_argument("--no-after", action="store_true", help="let it wait for no other")
    parser.add_argument("--rename", metavar="NAME", help="its new name; nothing runs for that")
    parser.add_argument("--wait", action="store_true", help="wait for the end (at most 1 h), with the exit codes of `appliance wait`")

    parser = command(
        verbs,
        "delete",
        "delete deployments: all of them or none",
        _delete,
        example="appliance deployment delete web-1/app web-1/base --yes",
        reads=True,
    )
    parser.add_argument("deployments", metavar="X", nargs="+", help="deployments, as SERVER/NAME or by id")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="without their DELETE work (see --actions of deploy), gone at once")

    for verb, does in (("suspend", "run a deployment's SUSPEND work"), ("resume", "run a suspended deployment's RESUME work")):
        parser = command(verbs, verb, does, _act, example=f"appliance deployment {verb} web-1/base", reads=True)
        parser.description = f"{does[0].upper()}{does[1:]}. One that has no work for that is complete at once."
        _one(parser)
        parser.set_defaults(verb=verb)

    parser = command(
        verbs, "runs", "list a deployment's runs and generations", _runs, example="appliance deployment runs web-1/base", reads=True
    )
    _one(parser)


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("deployment", metavar="X", help="the deployment, as SERVER/NAME or by id")


def _status(text: str) -> str:
    word = text.upper().replace("-", "_")
    if word not in STATUSES:
        raise argparse.ArgumentTypeError(f"{text!r} is no status; there is: {', '.join(STATUSES)}")
    return word


# ---------------------------------------------------------------------------------------------------- looking


def _list(args: argparse.Namespace, console: Console) -> int:
    found = list(pages(console, "/v1/deployments", "deployments", server=args.server, status=args.status))
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.next(
            "appliance deploy NAME --script FILE",
            "there is no such deployment" if args.server or args.status else "nothing is deployed yet",
        )
        return SUCCESS
    console.table(
        ["deployment", "stands", "since", "generation", "policy"],
        [(label(one), standing(one), since(one["since"]), one["generation"]["number"], one["policy"]) for one in found],
    )
    bad = [one for one in found if one["status"] == "FAILED" or one["phase"] == "blocked"]
    console.next(f"appliance why {label((bad or found)[0])}")
    return SUCCESS


def _show(args: argparse.Namespace, console: Console) -> int:
    one = find(console, args.deployment)
    config = console.client.get(f"/v1/configs/{part(one['config'])}")
    if console.json:
        console.dump({**one, "config": config})
        return SUCCESS
    generation = one["generation"]
    made = f" ({generation['detail']})" if generation["detail"] else ""
    lines = [
        ("stands", summary(one)),
        ("since", since(one["since"])),
        ("generation", f"{generation['number']}: {generation['cause']} by {generation['by']}{made}, {since(generation['created_at'])}"),
        ("policy", one["policy"] + (f", every {exact(one['interval'])}" if one["interval"] else "")),
        ("timeout", exact(one["timeout"]) if one["timeout"] else "none"),
        ("actions", ", ".join(one["actions"])),
        *([("attempts", str(one["attempts"]))] if one["attempts"] > 1 else []),
        ("hook", config["group"] or "none"),
        ("runs", runs_what(config)),
        ("config", config["id"]),
    ]
    lines += [("input", f"{name} = {_given(value)}") for name, value in sorted(one["inputs"].items())]
    lines += [("output", it["name"] + (" (an error)" if it["error_output"] else "")) for it in config["outputs"]]
    lines += [("follows" if id in one["follow"] else "after", _label_of(console, id)) for id in one["depends_on"]]
    lines += [("id", one["id"])]
    console.print(label(one), *(f"  {name:<11} {value}" for name, value in lines))
    console.next(f"appliance why {label(one)}" if one["status"] != "COMPLETE" else f"appliance log {label(one)}")
    return SUCCESS


def runs_what(config: Any) -> str:
    """What a config runs, in a few words."""
    files = ", ".join(f"{one['plan']}/{one['prefix']}".rstrip("/") for one in config["files"])
    if config["group"] == "plan" and files:
        return f"keeps files {files} as a directory"
    beside = f", with files {files}" if files else ""
    if config["source"]:
        return f"file {config['source']['path']} of plan {config['source']['plan']}{beside}"
    return ("a body that is not text" if config["size"] is None else f"a text of {size(config['size'])}") + beside


def _given(value: Any) -> str:
    return "(secret)" if value.get("secret") else str(value.get("value"))


def _label_of(console: Console, id: str) -> str:
    try:
        return label(find(console, id))
    except Refused:
        return id


def _runs(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(deployment_path(console, args.deployment) + "/runs")
    if console.json:
        console.dump(found)
        return SUCCESS
    numbers = {one["id"]: one["number"] for one in found["generations"]}
    console.table(
        ["generation", "action", "made", "by", "cause"],
        [
            (
                one["number"],
                one["action"],
                since(one["created_at"]),
                one["by"],
                one["cause"] + (f": {one['detail']}" if one["detail"] else ""),
            )
            for one in found["generations"]
        ],
    )
    if not found["runs"]:
        console.next(f"appliance why {args.deployment}", "it has not run yet")
        return SUCCESS
    console.print("")
    console.table(
        ["run", "generation", "attempt", "when", "what came of it"],
        [
            (
                one["id"][:8],
                numbers.get(one["generation"], "?"),
                one["attempt"],
                since(one["started_at"] or one["granted_at"]),
                one["sentence"],
            )
            for one in found["runs"]
        ],
    )
    console.next(f"appliance log {args.deployment} --run {found['runs'][0]['id'][:8]}")
    return SUCCESS


# ---------------------------------------------------------------------------------------------------- changing


def _update(args: argparse.Namespace, console: Console) -> int:
    plain, secret = given(args)
    old = find(console, args.deployment)
    edit: dict[str, Any] = {"inputs": plain, "secrets": secret, "drop": args.drop}
    edit |= _stated(args, console, old)
    if args.no_after and (args.after or args.follow):
        raise Failure("--no-after contradicts --after and --follow")
    if args.after or args.no_after:
        edit["depends_on"] = after(args.after or [], old["server"]["name"])
    if args.follow:
        edit["follow"] = after(args.follow, old["server"]["name"])
    if args.interval or args.no_interval:
        edit["interval"] = args.interval
    edit |= {"policy": args.policy} if args.policy else {}
    edit |= {"timeout": args.timeout} if "timeout" in args else {}
    edit |= {"attempts": args.attempts} if args.attempts else {}
    edit |= {"actions": args.actions} if args.actions else {}
    edit |= {"name": args.rename} if args.rename else {}
    if not any(edit.values()) and edit.keys() <= {"inputs", "secrets", "drop"}:
        raise Failure("nothing says what to change", "see: appliance deployment update --help")
    done = console.client.patch(f"/v1/deployments/{part(old['id'])}", edit)
    console.note(said(done))
    if args.wait:
        from appliance.cli.waiting import WAIT_SECONDS, wait_for

        return wait_for(console, [done], WAIT_SECONDS)
    if console.json:
        console.dump(done)
    if done["settled"] is None:
        console.next(f"appliance wait {label(done)}")
    elif done["held"] or done["did"] == "unchanged":
        console.next(f"appliance rerun {label(done)}", "to run it again")
    else:
        console.next(f"appliance deployment show {label(done)}")
    return SUCCESS


def _stated(args: argparse.Namespace, console: Console, old: Any) -> dict[str, Any]:
    """The config to send, if it changes: what is not said of it is as in the one there is. Raises Failure, Invalid."""
    says = [args.script, args.plan, args.path, args.hook, args.directory, args.keep, *args.output, *args.files]
    if args.config is not None:
        if any(says):
            raise Failure("--config says what to run, its hook, outputs and files", "leave out all that --config says")
        return {"config": config_id(console, args.config)}
    if not any(says):
        return {}
    before = console.client.get(f"/v1/configs/{part(old['config'])}")
    config = {name: before[name] for name in ("group", "name", "inputs", "outputs", "options", "files")}
    body = "source" if before["source"] else "body"
    stated = statement(args, before["group"]) or {"group": args.hook or before["group"], body: before[body]}
    stated |= {"files": [files(one) for one in args.files]} if args.files else {}
    if not args.output:
        stated.pop("outputs", None)
    return {"config": config | stated | ({"outputs": [output(one) for one in args.output]} if args.output else {})}


def _delete(args: argparse.Namespace, console: Console) -> int:
    there = deployments(console, args.deployments)
    names = ", ".join(label(one) for one in there)
    confirm(console, f"delete {names}", "yes" if len(there) > 1 else label(there[0]), yes=args.yes)
    done = console.client.post("/v1/deployments/delete", {"ids": [one["id"] for one in there], "force": args.force})
    if console.json:
        console.dump(done)
    gone, going = ([label(one) for one in there if one["id"] in done[what]] for what in ("deleted", "deleting"))
    running = [label(one) for one in there if label(one) in gone and one["phase"] in ("granted", "running")]
    if gone:
        console.note(f"deleted {', '.join(gone)}" + (f"; what runs now may finish: {', '.join(running)}" if running else ""))
    if going:
        console.note(f"deleting {', '.join(going)}: gone when the DELETE work is complete")
    console.next(f"appliance why {going[0]}" if going else "appliance deployment list")
    return SUCCESS


def _act(args: argparse.Namespace, console: Console) -> int:
    found = console.client.post(deployment_path(console, args.deployment) + f"/{args.verb}")
    console.note(f"{label(found)}: {summary(found)}")
    if console.json:
        console.dump(found)
    console.next(f"appliance wait {label(found)}" if found["settled"] is None else f"appliance deployment show {label(found)}")
    return SUCCESS
