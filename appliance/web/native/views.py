"""From the domain to the wire of the native API, field by field. Pure."""

import time
from typing import Any

from appliance.config import Given
from appliance.document import outputs_of
from appliance.operations.explain import View, Why, run_sentence
from appliance.operations.previews import Effect
from appliance.store.audit import Deed
from appliance.store.configs import Config
from appliance.store.generations import Past
from appliance.store.runs import Output, Run
from appliance.store.servers import Seen, Server
from appliance.store.tokens import Token


def instant(ms: int | None) -> str | None:
    """RFC 3339, UTC, with milliseconds."""
    if ms is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def server_view(server: Server, labels: list[str], counts: dict[str, int], seen: Seen | None) -> dict[str, Any]:
    """One server; `counts` by status, or phase while IN_PROGRESS."""
    return {
        "id": server.id,
        "name": server.name,
        "kind": server.kind,
        "labels": labels,
        "seen_at": instant(None if seen is None else seen.at),
        "agent": None if server.agent_state is None else {"version": server.agent_version, "hooks": server.hooks or []},
        "trouble": None if server.trouble is None else {"kind": server.trouble.kind, "message": server.trouble.sentence},
        "rival": None if server.rival is None else {"agent_state": server.rival.agent_state, "at": instant(server.rival.at)},
        "deployments": counts,
        "created_at": instant(server.created_at),
    }


def given_view(inputs: dict[str, Given]) -> dict[str, Any]:
    """Inputs as people see them: a secret one shows that it is there."""
    return {name: {"secret": True} if isinstance(one.sealed, str) else {"value": one.value} for name, one in inputs.items()}


def deployment_view(view: View) -> dict[str, Any]:
    """One deployment as it stands."""
    one = view.deployment
    generation = one.generation
    return {
        "id": one.id,
        "server": {"id": one.server, "name": one.server_name},
        "name": one.terms.name,
        "status": one.standing.status,
        "phase": view.phase,
        "reason": one.standing.reason,
        "sentence": view.sentence,
        "since": instant(one.since),
        "settled": view.settled,
        "held": one.standing.held,
        "run": one.standing.run,
        "repeating": one.standing.repeating,
        "generation": {
            "id": generation.id,
            "number": generation.number,
            "action": generation.action,
            "cause": generation.cause,
            "detail": generation.detail,
            "commit": generation.commit,
            "created_at": instant(generation.created_at),
            "by": generation.by,
        },
        "policy": one.terms.policy,
        "interval": one.terms.interval,
        "timeout": one.terms.timeout,
        "attempts": one.terms.attempts,
        "actions": list(one.terms.actions),
        "leaving": one.leaving,
        "attempt": one.standing.attempt,
        "retry_in": view.retry_in,
        "config": one.terms.config,
        "inputs": given_view(one.terms.inputs),
        "depends_on": view.needs,
        "after": view.after,
        "follow": list(one.terms.follows),
        "blocked_on": [
            {"id": it.deployment, "label": f"{it.server}/{it.name}", "status": it.status, "phase": it.phase} for it in view.blockers
        ],
        "created_at": instant(one.created_at),
    }


def preview_view(effects: list[Effect], servers: dict[str, tuple[Server, Seen | None]], commit: int) -> dict[str, Any]:
    """What a preview tells beside the answer of the operation itself: per server, what becomes of each deployment."""
    found = [
        {
            "id": id,
            "name": server.name,
            "kind": server.kind,
            "seen_at": instant(None if seen is None else seen.at),
            "deployments": [
                {
                    "id": one.deployment,
                    "label": one.label,
                    "does": one.does,
                    "moved": one.moved,
                    "why": one.why,
                    "sentence": one.sentence,
                    "waits_for": one.waits_for,
                }
                for one in effects
                if one.server == id
            ],
        }
        for id, (server, seen) in servers.items()
    ]
    return {"dry_run": True, "as_of_commit": commit, "preview": found}


def why_view(why: Why) -> dict[str, Any]:
    """An explanation."""
    shown = [run_view(run, why.numbers.get(run.generation)) for run in why.runs]
    return {"deployment": deployment_view(why.view), "because": why.because, "next": why.next, "runs": shown}


def past_view(past: Past) -> dict[str, Any]:
    """One generation of the history."""
    return {
        "id": past.id,
        "number": past.number,
        "action": past.action,
        "cause": past.cause,
        "detail": past.detail,
        "commit": past.commit,
        "created_at": instant(past.created_at),
        "by": past.by,
    }


def run_view(run: Run, number: int | None, output: Output | None = None) -> dict[str, Any]:
    """One run, of the generation with this number; with its output where that was asked for."""
    found: dict[str, Any] = {
        "id": run.id,
        "deployment": run.deployment,
        "generation": run.generation,
        "generation_number": number,
        "attempt": run.attempt,
        "leg": run.leg,
        "repeat": run.repeat,
        "stands": run.stands,
        "status": run.status,
        "reason": run.reason,
        "sentence": run_sentence(run),
        "status_code": run.status_code,
        "effect": run.effect,
        "effect_why": run.effect_why,
        "granted_at": instant(run.granted_at),
        "started_at": instant(run.started_at),
        "ended_at": instant(run.ended_at),
    }
    if output is not None:
        found["outputs"] = output.outputs
        found |= {"stdout": output.stdout, "stderr": output.stderr, "sizes": output.sizes, "truncated": output.truncated}
    return found


def config_view(config: Config, *, body: bool = True) -> dict[str, Any]:
    """One config; in a listing without its body. `size` is that of a body of text, in bytes."""
    statement = config.statement
    return {
        "id": config.id,
        "name": statement.name,
        "group": statement.group,
        **({"body": statement.body} if body else {}),
        "size": len(statement.body.encode()) if isinstance(statement.body, str) else None,
        "source": None if statement.source is None else {"plan": statement.source.plan, "path": statement.source.path},
        "files": list(statement.files),
        "inputs": list(statement.inputs),
        "outputs": outputs_of(statement),
        "options": statement.options,
        "created_at": instant(config.created_at),
        "deleted_at": instant(config.hidden_at),
        "by": config.by,
    }


def token_view(token: Token) -> dict[str, Any]:
    """One token, without its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "server": token.server,
        "created_at": instant(token.created_at),
        "expires_at": instant(token.expires_at),
        "uses_left": token.uses_left,
        "revoked_at": instant(token.revoked_at),
    }


def deed_view(deed: Deed) -> dict[str, Any]:
    """One row of the audit log."""
    return {
        "seq": deed.seq,
        "commit": deed.commit,
        "at": instant(deed.at),
        "by": deed.by,
        "verb": deed.verb,
        "object": deed.object,
        "detail": deed.detail,
    }
