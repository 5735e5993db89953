"""Previews of switches and rollbacks over HTTP, and how many deployments they may move."""

import io
import tarfile

import pytest

from .talking import Agent, deploy


@pytest.fixture
def lab(application):
    """`lab` with two versions; `m/base` (on a server that joined) and `n/base` (on one that never did) use its file `a`."""
    for text in ("one", "two"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            body = f"#!/bin/sh\necho {text}\n".encode()
            member = tarfile.TarInfo("a")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        application.ok("POST", "/v1/plans/lab/archive", content=out.getvalue(), headers={"Content-Type": "application/x-tar"})
    application.ok("POST", "/v1/plans/lab/switch", json={"to": 1})
    application.machine = Agent(application, "m")
    application.ok("POST", "/v1/servers", json={"name": "n"})
    for server in ("m", "n"):
        deploy(application, server, "base", config={"group": "script", "source": {"plan": "lab", "path": "a"}})
    deploy(application, "n", "next", depends_on=["n/base"])
    return application


def test_a_dry_run_tells_per_server_and_deployment_and_changes_nothing(lab):
    lab.machine.runs("base")
    lab.clock.pass_(60_000)
    before = lab.rows()
    answer = lab.call("POST", "/v1/plans/lab/switch", json={"to": 2, "dry_run": True}, headers={"Idempotency-Key": "k"})
    told = answer.json()
    assert lab.rows() == before  # nor is the answer kept for the key
    assert (told["dry_run"], told["version"], told["was"], told["changed"], told["removed"]) == (True, 2, 1, 1, [])
    assert told["as_of_commit"] == int(answer.headers["appliance-commit"]) == lab.database.commit_no
    assert told["moves"] == {"runs": 2, "waits": 1, "complete": 0, "held": 0}
    m, n = told["preview"]
    assert (m["name"], m["kind"], m["seen_at"]) == ("m", "agent", "2023-11-14T22:13:20.000Z")
    assert [(one["label"], one["does"], one["why"]) for one in m["deployments"]] == [
        ("m/base", "runs", "file lab:a changed (version 2)"),
    ]
    assert (n["name"], n["kind"], n["seen_at"]) == ("n", "unenrolled", None)
    assert [(one["label"], one["does"], one["waits_for"]) for one in n["deployments"]] == [
        ("n/base", "runs", []),
        ("n/next", "waits", ["n/base"]),
    ]


def test_the_apply_answers_what_the_dry_run_told(lab):
    told = lab.ok("POST", "/v1/plans/lab/switch", json={"to": 2, "dry_run": True})
    done = lab.ok("POST", "/v1/plans/lab/switch", json={"to": 2})
    assert {name: told[name] for name in done} == done
    told = lab.ok("POST", "/v1/plans/lab/rollback", json={"dry_run": True})
    done = lab.ok("POST", "/v1/plans/lab/rollback", json={})
    assert {name: told[name] for name in done} == done
    assert done["moves"]["runs"] == 2


def test_what_would_be_refused_is_refused_alike(lab):
    body = {"to": 2, "expected": 0}
    refusals = [lab.fails(409, "POST", "/v1/plans/lab/switch", json=body | {"dry_run": dry}) for dry in (True, False)]
    assert refusals[0] == refusals[1]
    assert lab.fails(404, "POST", "/v1/plans/lab/switch", json={"to": 9, "dry_run": True})["code"] == "not-found"


@pytest.mark.parametrize("verb, body", [("switch", {"to": 2}), ("rollback", {})])
def test_more_than_max_affected_is_409_with_the_count(lab, verb, body):
    if verb == "rollback":
        lab.ok("POST", "/v1/plans/lab/switch", json={"to": 2})
    for limit in (1, "1", "50%"):
        error = lab.fails(409, "POST", f"/v1/plans/lab/{verb}", json=body | {"max_affected": limit})
        assert error["detail"] == {"affected": 2, "total": 3, "max_affected": str(limit)}
        assert error["message"].startswith(f"this moves 2 of 3 deployments, and the limit is {limit}")
    assert lab.fails(400, "POST", f"/v1/plans/lab/{verb}", json=body | {"max_affected": "many"})["code"] == "invalid"
    assert len(lab.ok("POST", f"/v1/plans/lab/{verb}", json=body | {"max_affected": 2})["deployments"]) == 2


def test_a_viewer_may_not_even_preview(lab):
    assert lab.fails(403, "POST", "/v1/plans/lab/switch", "viewer", json={"to": 2, "dry_run": True})["code"] == "forbidden"
