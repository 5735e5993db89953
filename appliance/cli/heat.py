"""`appliance heat ...`: settings for OpenStack's own clients, so that they work against this appliance."""

import argparse
import json
from typing import Any

from appliance.cli.common import NOT_FOUND, REFUSED, SUCCESS, Console, Failure, command, group
from appliance.client import Refused, profile

AUTHS = ("admin_token", "password", "http_basic", "none")


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `heat` and its commands."""
    heat = group(parsers, "heat", "use OpenStack's own clients with this appliance")
    parser = command(
        heat,
        "clouds-yaml",
        "print a clouds.yaml for the `openstack` command",
        _clouds_yaml,
        example="appliance heat clouds-yaml > clouds.yaml\nopenstack --os-cloud appliance software deployment list",
    )
    _auth(parser)
    parser.add_argument("--name", metavar="CLOUD", default="appliance", help="what to call it there (default: appliance)")
    parser = command(
        heat,
        "env",
        "print the same settings as environment variables",
        _env,
        example='eval "$(appliance heat env)"\nopenstack software deployment list',
    )
    _auth(parser)


def _auth(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--auth",
        choices=AUTHS,
        default="admin_token",
        help="how the client says who it is: with the token of this profile (admin_token, the default), with a login (password), "
        "with HTTP Basic (http_basic), or not at all (none; the appliance must be started with --heat-none)",
    )


def _settings(console: Console, auth: str) -> dict[str, Any]:
    """What goes below `auth` in a clouds.yaml."""
    try:
        found = console.client.get("/heat/setup")
    except Refused as error:
        if error.status == 404:
            raise Failure("this appliance has no Heat edge", "install one that has", NOT_FOUND) from None
        raise
    token = profile(getattr(console.args, "url", None), getattr(console.args, "token", None)).token
    if auth == "none":
        if found["open_endpoint"] is None:
            raise Failure("this appliance takes no requests without a credential", "start it with: appliance serve --heat-none", REFUSED)
        return {"endpoint": found["open_endpoint"]}
    if auth == "admin_token":
        return {"endpoint": found["endpoint"], "token": token}
    if auth == "http_basic":
        return {"endpoint": found["endpoint"], "username": "appliance", "password": token}
    return {
        "auth_url": found["auth_url"],
        "username": "appliance",
        "password": token,
        "user_domain_id": "default",
        "project_name": found["project"],
        "project_domain_id": "default",
    }


def _clouds_yaml(args: argparse.Namespace, console: Console) -> int:
    settings = _settings(console, args.auth)
    lines = ["clouds:", f"  {json.dumps(args.name)}:", f"    auth_type: {args.auth}", "    auth:"]
    lines += [f"      {name}: {json.dumps(value)}" for name, value in settings.items()]
    if args.auth == "password":
        lines += ["    identity_api_version: 3", "    region_name: RegionOne"]
    console.print(*lines)
    console.note("keep it private (mode 0600): it holds a credential; `openstack` looks for it here and in ~/.config/openstack/clouds.yaml")
    console.next(f"openstack --os-cloud {args.name} software deployment list")
    return SUCCESS


def _env(args: argparse.Namespace, console: Console) -> int:
    found = {"auth_type": args.auth} | _settings(console, args.auth)
    if args.auth == "password":
        found |= {"identity_api_version": "3", "region_name": "RegionOne"}
    console.print(*(f"export OS_{name.upper()}={_quoted(value)}" for name, value in found.items()))
    return SUCCESS


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"
