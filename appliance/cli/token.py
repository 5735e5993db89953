"""`appliance token ...` and `appliance audit`: who may do what, and who did."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from appliance.cli.common import NOT_FOUND, REFUSED, SUCCESS, Console, Failure, command, duration_or_none, group, since, up_to
from appliance.client import Refused, part

ROLES = ("admin", "operator", "viewer")
SHOWN = 4


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    verbs = group(parsers, "token", "give people and programs access, and take it away")
    parser = command(
        verbs,
        "create",
        "make a token, and print only that",
        _create,
        example="appliance token create --role operator --name ann --expires 30d",
    )
    parser.add_argument("--role", required=True, choices=ROLES, help="viewer looks, operator deploys, admin gives access")
    parser.add_argument("--name", required=True, metavar="NAME", help="whom it is for; what they do is recorded under it")
    parser.add_argument(
        "--expires", metavar="TIME", type=duration_or_none, help="it opens nothing after this time: 12h, 30d (default: none)"
    )
    parser.add_argument("--db", metavar="FILE", help="make it in this file, which nobody serves just now: for its owner, without a token")

    parser = command(verbs, "list", "list people's and join tokens", _list, example="appliance token list --all", reads=True)
    parser.add_argument("--all", action="store_true", help="also those that open nothing any more")

    parser = command(verbs, "revoke", "make a token open nothing any more", _revoke, example="appliance token revoke ann")
    parser.add_argument("which", metavar="TOKEN", help="the token's name or id, as listed; not the token itself")

    parser = command(
        parsers,
        "audit",
        "list who did what, the newest first",
        _audit,
        example="appliance audit --limit 20\nappliance audit --object web-1/base",
        reads=True,
    )
    parser.add_argument("--limit", metavar="N", type=up_to(1000), default=50, help="at most this many (default 50, at most 1000)")
    parser.add_argument("--object", metavar="X", help="only about this server, deployment (SERVER/NAME), plan:NAME, or id")


def _create(args: argparse.Namespace, console: Console) -> int:
    made = _offline(args) if args.db else _online(args, console)
    console.print(made["token"])
    until = f", until {made['expires_at'][:10]}" if made["expires_at"] else ""
    console.note(f"a token for {made['name']} ({made['role']}{until}); it is shown only here")
    console.next("appliance token list" if not args.db else f"appliance serve --db {args.db}")
    return SUCCESS


def _online(args: argparse.Namespace, console: Console) -> Any:
    return console.client.post("/v1/tokens", {"name": args.name, "role": args.role, "expires": args.expires})


def _offline(args: argparse.Namespace) -> Any:
    """Make it in the file itself; refused while the file is served. Raises Failure and what `open_file` raises."""
    from appliance.errors import Conflict
    from appliance.opening import open_file
    from appliance.operations.servers import add_token, new_secret

    path = Path(args.db)
    if not path.is_file() or not path.stat().st_size:
        raise Failure(f"there is no database {path}", "name the file that `appliance serve` uses", NOT_FOUND)
    try:
        opened = open_file(str(path.absolute()), "appliance token create")
    except Conflict as error:
        hint = "leave out --db to ask the appliance that serves it" if "served by" in error.message else error.hint
        raise Failure(error.message, hint, REFUSED) from None
    secret = new_secret()
    try:
        expires = None if args.expires is None else opened.database.clock() + args.expires * 1000
        opened.database.write(lambda tx: add_token(tx, secret, args.role, args.name, expires, "the owner of the file"))
    finally:
        opened.close()
    return {"name": args.name, "role": args.role, "token": secret, "expires_at": None}


def _list(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get("/v1/tokens")["tokens"]
    if console.json:
        console.dump(found)
        return SUCCESS
    shown = [one for one in found if args.all or _opens(one)]
    console.table(
        ["name", "role", "made", "holds", "id"],
        [(one["name"], one["role"], since(one["created_at"]), _holds(one), one["id"]) for one in shown],
    )
    if len(shown) < len(found):
        console.note(f"and {len(found) - len(shown)} that open nothing any more (--all)")
    console.next("appliance token revoke NAME")
    return SUCCESS


def _opens(one: Any) -> bool:
    over = one["expires_at"] is not None and one["expires_at"][:19] < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    return not (one["revoked_at"] or one["uses_left"] == 0 or over)


def _holds(one: Any) -> str:
    if one["revoked_at"]:
        return f"revoked {since(one['revoked_at'])}"
    if one["uses_left"] == 0:
        return "used"
    return f"until {one['expires_at'][:16]}Z" if one["expires_at"] else "yes"


def _revoke(args: argparse.Namespace, console: Console) -> int:
    console.client.delete(f"/v1/tokens/{part(args.which)}")
    console.note(f"revoked {args.which}: it opens nothing any more")
    console.next("appliance token list")
    return SUCCESS


def _audit(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get("/v1/audit", limit=args.limit, object=_object(console, args.object))["audit"]
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.note(f"there is nothing about {args.object!r}" if args.object else "nothing was done yet")
        return SUCCESS
    console.table(
        ["commit", "when", "by", "did", "to", ""],
        [(one["commit"], since(one["at"]), one["by"], one["verb"], _to(one), _detail(one["detail"])) for one in found],
    )
    return SUCCESS


def _object(console: Console, word: str | None) -> str | None:
    """What the audit log knows something by: the id where a living server or deployment has this name, else the word itself."""
    if word is None or word.startswith("plan:"):
        return word
    path = "/v1/deployments/" + "/".join(part(one) for one in word.split("/")) if "/" in word else f"/v1/servers/{part(word)}"
    try:
        return str(console.client.get(path)["id"])
    except Refused as error:
        if error.status not in (404, 410):
            raise
        return word


def _to(deed: Any) -> str:
    detail = deed["detail"]
    if "server" in detail and "name" in detail:
        return f"{detail['server']}/{detail['name']}"
    return str(detail.get("name") or deed["object"])


def _detail(detail: dict[str, Any]) -> str:
    """What is left to say in a line; the whole of it is in --json."""
    left = {name: value for name, value in detail.items() if name not in ("name", "server") and value not in (None, [], "")}
    texts = [f"{name} {_text(value)}" for name, value in left.items()]
    return "; ".join(text if len(text) <= 80 else text[:77] + "..." for text in texts[:SHOWN])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return str(value) if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)
