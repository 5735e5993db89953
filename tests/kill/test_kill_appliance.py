"""`kill -9` of the appliance at random moments, under pushes, switches, new deployments and signals."""

import random
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest

from appliance.client import Client

from ..lab import Lab
from .load import Load


def sound(lab: Lab) -> None:
    """SQLite finds nothing to complain of, in a file that is served."""
    with closing(sqlite3.connect(f"file:{lab.db}?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def holds(client: Client, kind: str, fact: dict[str, Any]) -> None:
    """What was acknowledged is there."""
    match kind:
        case "push":
            found = client.get(f"/v1/plans/{fact['plan']}/versions/{fact['number']}")
            assert (found["digest"], len(found["entries"])) == (fact["digest"], fact["files"])
        case "switch":
            (found,) = client.get(f"/v1/plans/{fact['plan']}/switches", before=fact["serial"] + 1, limit=1)["switches"]
            assert (found["serial"], found["version"]) == (fact["serial"], fact["version"])
        case "create":
            assert fact["generation"] == client.get(f"/v1/deployments/{fact['deployment']}")["generation"]["id"]
        case "claim" | "started" | "finished":
            run = client.get(f"/v1/runs/{fact['run']}")
            assert (run["deployment"], run["generation"]) == (fact["deployment"], fact["generation"])
            assert kind != "started" or run["started_at"]
            if kind == "finished":
                assert (run["status"], run["effect"], run["stdout"]) == ("COMPLETE", "recorded", fact["said"])
                assert client.get(f"/v1/deployments/{fact['deployment']}")["status"] == "COMPLETE"
                assert [one["id"] for one in client.get(f"/v1/deployments/{fact['deployment']}/runs")["runs"]] == [fact["run"]]


@pytest.mark.kill
@pytest.mark.timeout(1800)
def test_a_killed_appliance_loses_nothing_that_it_acknowledged(lab: Lab, kills: int, chosen: random.Random) -> None:
    load = Load(lab, chosen)
    checked = 0
    began = time.monotonic()
    load.start()
    try:
        for number in range(kills):
            time.sleep(chosen.uniform(0.05, 0.8))
            load.up.clear()
            lab.kill()
            facts = load.acknowledged[:]
            lab.serve()
            sound(lab)
            for kind, fact in facts[checked:]:
                holds(lab.client, kind, fact)
            for kind, fact in chosen.sample(facts[:checked], min(5, checked)):
                holds(lab.client, kind, fact)
            checked = len(facts)
            assert load.wrong == [], f"after kill {number + 1}"
            load.up.set()
        time.sleep(0.5)
    finally:
        load.stop()
    for kind, fact in load.acknowledged:
        holds(lab.client, kind, fact)
    assert load.wrong == []
    assert lab.stop() == 0
    lab.serve()
    sound(lab)
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(load.counts.items()))
    print(f"{kills} kills in {time.monotonic() - began:.0f} s; {counts}")
    assert {"push", "switch", "create", "claim", "started", "finished", "read"} <= load.counts.keys()
