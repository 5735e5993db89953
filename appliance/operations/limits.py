"""How long silence is borne."""

from collections.abc import Iterable

from appliance.store import deadlines, deployments, file, runs
from appliance.store.runs import NO_LIMITS, Limits, Run
from appliance.store.tx import Reader, Tx

OVERDUE_MS = 60_000  # the way of a report, and a little


def at_grant(tx: Reader, server: str, kind: str, timeout: int | None, after: Iterable[str] = ()) -> Limits:
    """For a run that is granted now, after these generations of its server.

    It is given up when its time limit, those of the runs it is after, and the grace have passed. Since a machine runs one thing at a
    time, it is overdue only when all that its server was granted before could have ended. Without a time limit there is no end to wait for.
    """
    if timeout is None:
        return NO_LIMITS
    grace = _grace(tx, kind)
    before = [at for generation in after for at in deadlines.open_deadlines(tx, generation)]
    base = tx.uptime
    for at in before:
        if at is None:
            return NO_LIMITS
        base = max(base, at - grace)
    deadline = base + timeout * 1000 + grace
    due = max(base, deadlines.last_due(tx, server) or 0) + timeout * 1000 + _late(grace)
    return Limits(min(due, deadline), deadline)


def at_start(tx: Reader, kind: str, timeout: int | None) -> Limits:
    """For a run of which there is word that it has started."""
    if timeout is None:
        return NO_LIMITS
    end, grace = tx.uptime + timeout * 1000, _grace(tx, kind)
    return Limits(end + _late(grace), end + grace)


def _late(grace: int) -> int:
    return min(OVERDUE_MS, grace // 2)


def _grace(tx: Reader, kind: str) -> int:
    pace = file.pace(tx)
    return pace.stock_grace if kind == "stock" else pace.grace


def after_the_unlimited(tx: Tx, ended: Run) -> None:
    """A run without a deadline is over: what was granted after it has none either, and gets one now."""
    if ended.deadline is not None:
        return
    for run in runs.open_of_server(tx, ended.server):
        found = deployments.find(tx, run.deployment)
        if run.stands == "granted" and run.deadline is None and ended.generation in run.after and found is not None:
            runs.set_limits(tx, run.id, at_grant(tx, run.server, found.server_kind, found.terms.timeout, run.after))
