"""`appliance config ...`: statements of what to run that several deployments may share."""

import argparse
import json
from typing import Any

from appliance.cli.common import SUCCESS, Console, Failure, command, group, since
from appliance.cli.finding import config_id, pages
from appliance.cli.statement import TYPES, body_flags, declared, statement
from appliance.client import part


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `config` and its commands."""
    verbs = group(parsers, "config", "make configs that several deployments share, and look at them")
    parser = command(
        verbs,
        "create",
        "make a config, and print its id",
        _create,
        example="appliance config create shared --script base.sh --input who --input count:Number=3 --output result",
        reads=True,
    )
    parser.add_argument("name", metavar="NAME", help="its name; several may have the same")
    body_flags(parser, config=False)
    parser.add_argument(
        "--input",
        metavar="NAME[:TYPE][=DEFAULT]",
        action="append",
        default=[],
        help=f"declare an input; without a default it is required. Types: {', '.join(TYPES)}",
    )

    command(verbs, "list", "list the configs, the newest first", _list, example="appliance config list", reads=True)

    parser = command(verbs, "show", "show a config with its body", _show, example="appliance config show shared", reads=True)
    _one(parser)

    parser = command(verbs, "delete", "delete a config that no deployment has", _delete, example="appliance config delete shared")
    _one(parser)


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="the config, by id (or by a name that only one has)")


def _create(args: argparse.Namespace, console: Console) -> int:
    stated = statement(args)
    if stated is None:
        raise Failure("nothing says what to run", "give --script FILE, or --plan PLAN with --path FILE")
    inputs = [declared(one) for one in args.input]
    made = console.client.post("/v1/configs", stated | {"name": args.name, "inputs": inputs})
    if console.json:
        console.dump(made)
    else:
        console.print(made["id"])
    console.next(f"appliance deploy {args.name} --config {made['id']}")
    return SUCCESS


def _list(_: argparse.Namespace, console: Console) -> int:
    from appliance.cli.deployment import runs_what

    found = list(pages(console, "/v1/configs", "configs", after="before"))
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.next("appliance config create NAME --script FILE", "there is no config yet")
        return SUCCESS
    console.table(
        ["config", "name", "hook", "runs", "made", "by"],
        [(one["id"], one["name"] or "", one["group"] or "", runs_what(one), since(one["created_at"]), one["by"]) for one in found],
    )
    console.next(f"appliance config show {found[0]['id']}")
    return SUCCESS


def _show(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.deployment import runs_what

    found = console.client.get(f"/v1/configs/{part(config_id(console, args.config))}")
    if console.json:
        console.dump(found)
        return SUCCESS
    lines = [("hook", found["group"] or "none"), ("runs", runs_what(found)), ("made", f"{since(found['created_at'])} by {found['by']}")]
    lines += [("deleted", since(found["deleted_at"]))] if found["deleted_at"] else []
    lines += [("input", _input(one)) for one in found["inputs"]]
    lines += [("output", one["name"] + (" (an error)" if one["error_output"] else "")) for one in found["outputs"]]
    console.print(f"{found['name'] or found['id']}", *(f"  {name:<7} {value}" for name, value in lines))
    body = found["body"]
    if body is not None:
        console.print("", body.removesuffix("\n") if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False))
    source = found["source"]
    if source is None and found["deleted_at"]:
        console.next("appliance config list", "it was deleted")
        return SUCCESS
    console.next(f"appliance plan cat {source['plan']} {source['path']}" if source else f"appliance deploy NAME --config {found['id']}")
    return SUCCESS


def _input(one: Any) -> str:
    kind = one.get("type", "String")
    default = f", default {json.dumps(one['default'], ensure_ascii=False)}" if "default" in one else ", required"
    return f"{one['name']} ({kind}{'' if 'value' in one else default})"


def _delete(args: argparse.Namespace, console: Console) -> int:
    console.client.delete(f"/v1/configs/{part(config_id(console, args.config))}")
    console.note(f"deleted config {args.config}")
    console.next("appliance config list")
    return SUCCESS
