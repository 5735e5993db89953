"""Terms of a deployment: what may be asked for, and what changed of it."""

from collections.abc import Iterable
from typing import Any

from appliance import config as rules
from appliance.deployment import ACTIONS, INTERVAL_SECONDS, POLICIES, Action, Policy
from appliance.errors import Conflict, Invalid
from appliance.store.configs import Config
from appliance.store.deployments import Terms
from appliance.store.servers import Server

TIMEOUT_LIMIT = 30 * 24 * 3600
ATTEMPTS_LIMIT = 100


def terms_changed(old: Terms, new: Terms) -> list[str]:
    """What differs that no fingerprint shows, in words."""
    words = [
        ("name", f"name {new.name}"),
        ("policy", f"policy {new.policy}"),
        ("interval", f"interval {new.interval} s" if new.interval else "no interval"),
        ("timeout", f"timeout {new.timeout} s" if new.timeout else "no timeout"),
        ("attempts", f"attempts {new.attempts}"),
        ("actions", f"actions {', '.join(new.actions)}"),
    ]
    return [text for field, text in words if getattr(old, field) != getattr(new, field)]


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Actions, each once. Raises Invalid for none."""
    found = tuple(one for one in ACTIONS if one in set(actions))
    if not found:
        raise Invalid("a deployment has work for one action at least", hint=f"give some of {', '.join(ACTIONS)}")
    return found


def policy_of(said: Policy | None, plain: dict[str, Any]) -> Policy | None:
    """The policy that is asked for: by the option, else by the input of Heat's users, else none."""
    by_input = plain.get(rules.POLICY_INPUT)
    if said is not None or by_input is None:
        return said
    for policy in POLICIES:
        if policy == by_input:
            return policy
    raise Invalid(f"input {rules.POLICY_INPUT!r} is {by_input!r}; it is one of {', '.join(POLICIES)}")


def checked_terms(server: Server, terms: Terms) -> Terms:
    """Refuse terms that cannot be kept. Raises Invalid or Conflict."""
    if terms.interval is not None and terms.policy != "always":
        raise Invalid(f"an interval goes with policy always, and this one is {terms.policy}")
    if terms.interval is not None and terms.interval < INTERVAL_SECONDS:
        raise Invalid(f"an interval of {terms.interval} s is too short", hint=f"use at least {INTERVAL_SECONDS} s")
    if terms.timeout is not None and not 1 <= terms.timeout <= TIMEOUT_LIMIT:
        raise Invalid(f"a timeout of {terms.timeout} s is out of range", hint=f"use 1 to {TIMEOUT_LIMIT} seconds, or none")
    if not 1 <= terms.attempts <= ATTEMPTS_LIMIT:
        raise Invalid(f"{terms.attempts} attempts are out of range", hint=f"use 1 to {ATTEMPTS_LIMIT}")
    if server.kind == "stock" and terms.policy != "on-change":
        raise Conflict(
            f"{server.name!r} runs a stock agent, which runs one id once and cannot keep the policy {terms.policy}",
            hint="use on-change, or run the appliance's own agent there (appliance agent join)",
        )
    return terms


def refuse_files(server: Server, config: Config) -> None:
    """Raise Conflict when a server's agent cannot be given the files of a config."""
    if server.kind == "stock" and config.statement.files:
        raise Conflict(
            f"{server.name!r} runs a stock agent, which cannot be given files beside a config",
            hint="run the appliance's own agent there (appliance agent join)",
        )
