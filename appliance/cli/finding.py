"""From what a person types to what the appliance has: servers by name, label and pattern; deployments by `SERVER/NAME`."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from appliance.cli.common import NOT_FOUND, REFUSED, USAGE, Console, Failure
from appliance.client import part

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# A deployment of such a name cannot be addressed by a path that ends in it.
_VERBS = ("why", "runs", "rerun", "cancel", "delete")


def pages(console: Console, path: str, what: str, after: str = "after", **query: Any) -> Iterator[Any]:
    """All items of a listing, page by page."""
    mark: Any = None
    while True:
        found = console.client.get(path, **{after: mark}, **query)
        yield from found[what]
        mark = found.get("next")
        if mark is None:
            return


def servers(console: Console, label: str | None = None) -> list[Any]:
    """Servers, by name."""
    return list(pages(console, "/v1/servers", "servers", label=label))


def chosen(console: Console, wanted: list[str]) -> list[Any]:
    """The servers meant by names, ids, `label:L` and patterns; with none given, the only one there is.

    In the order of the names. Raises Failure when a word means none, or when none is given and there is not exactly one.
    """
    there = servers(console)
    if not there:
        raise Failure("there is no server yet", "add one with: appliance server add NAME", NOT_FOUND)
    if not wanted:
        if len(there) == 1:
            return there
        names = ", ".join(one["name"] for one in there[:8]) + (", ..." if len(there) > 8 else "")
        raise Failure(
            f"there are {len(there)} servers, so say which one it is for", f"--server takes one of: {names}; or 'label:L', or a pattern"
        )
    found: dict[str, Any] = {}
    for word in wanted:
        meant = [one for one in there if _means(word, one)]
        if not meant:
            raise Failure(
                f"no server {word!r}" if not _many(word) else f"no server matches {word!r}", "see: appliance server list", NOT_FOUND
            )
        found |= {one["id"]: one for one in meant}
    return [one for one in there if one["id"] in found]


def _many(word: str) -> bool:
    return word.startswith("label:") or any(one in word for one in "*?[")


def _means(word: str, server: Any) -> bool:
    if word.startswith("label:"):
        return word.removeprefix("label:") in server["labels"]
    return word in (server["name"], server["id"]) or (_many(word) and fnmatchcase(server["name"], word))


def server_path(word: str) -> str:
    """The path of a server named by name or id. Raises Failure for a word that can be neither."""
    if not word or "/" in word:
        raise Failure(f"no server {word!r}", "see: appliance server list", NOT_FOUND)
    return f"/v1/servers/{part(word)}"


def deployment_path(console: Console, ref: str) -> str:
    """The path of a deployment named `SERVER/NAME` or by id. Raises Failure for a word that can be neither."""
    server, slash, name = ref.partition("/")
    if not ref or (slash and not (server and name)):
        raise Failure(f"{ref!r} is no deployment", "name it as SERVER/NAME, or see: appliance deployment list", USAGE)
    if slash and name.rpartition("/")[2] in _VERBS:
        there = console.client.get("/v1/deployments", server=server, name=name)["deployments"]
        if not there:
            raise Failure(f"no deployment {ref!r}", f"see: appliance deployment list --server {server}", NOT_FOUND)
        if len(there) > 1:
            raise Failure(f"{ref} names {len(there)} deployments", "use one of the ids: " + ", ".join(one["id"] for one in there), REFUSED)
        return f"/v1/deployments/{part(there[0]['id'])}"
    return "/v1/deployments/" + "/".join(part(one) for one in ref.split("/"))


def deployment(console: Console, ref: str) -> Any:
    """A deployment as it stands now."""
    return console.client.get(deployment_path(console, ref))


def deployments(console: Console, refs: list[str]) -> list[Any]:
    """Deployments as they stand now, each once, in the order they were named."""
    found = {one["id"]: one for one in (deployment(console, ref) for ref in refs)}
    return list(found.values())


def config_id(console: Console, word: str) -> str:
    """A config's id, from that or from a name that only one has. Raises Failure."""
    if UUID.fullmatch(word):
        return word
    named = [one["id"] for one in pages(console, "/v1/configs", "configs", after="before") if one["name"] == word]
    if not named:
        raise Failure(f"no config {word!r}", "see: appliance config list", NOT_FOUND)
    if len(named) > 1:
        shown = ", ".join(named[:3]) + (f" and {len(named) - 3} older ones" if len(named) > 3 else "")
        raise Failure(f"{len(named)} configs are named {word!r}", f"use one of the ids: {shown}", REFUSED)
    return str(named[0])


def label(one: Any) -> str:
    """`SERVER/NAME` of a deployment, or its id where it has no name."""
    return f"{one['server']['name']}/{one['name']}" if one["name"] else str(one["id"])


def summary(one: Any) -> str:
    """Where a deployment stands, with its sentence."""
    words, sentence = standing(one), str(one["sentence"])
    if sentence == words or sentence.startswith((f"{words};", f"{words} ")):
        return sentence
    return f"{words}: {sentence.removeprefix('complete; ')}"


def standing(one: Any) -> str:
    """Where a deployment stands, in a word or two: `complete`, `failed (exit)`, `running`."""
    if one["status"] == "IN_PROGRESS":
        return str(one["phase"])
    text = "failed" if one["status"] == "FAILED" else "complete"
    text += f" ({one['reason']})" if one["reason"] else ""
    text += ", held" if one["held"] else ""
    return text + (", repeating" if one["repeating"] else "")
