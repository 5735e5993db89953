"""Deployments over HTTP: lists, waits, reruns, and what people are shown."""

import asyncio

import pytest

from .talking import SCRIPT, Agent, deploy, send, talk


@pytest.fixture
def m(application):
    return Agent(application)


def settled(answer):
    return answer.json()["status"], answer.json()["settled"]


# ---------------------------------------------------------------------------------------------------- made and changed


def test_one_is_answered_as_one_and_a_list_as_a_list(application, m):
    made = deploy(application, "m", "a", inputs={"who": "x"})
    assert (made["did"], made["made_generation"], made["status"], made["phase"], made["generation"]["number"]) == (
        "created", True, "IN_PROGRESS", "pending", 1,
    )  # fmt: skip
    again = application.ok("POST", "/v1/deployments", json=[{"server": "m", "name": "a", "config": SCRIPT, "update": True}])
    assert [(one["did"], one["changes"]) for one in again] == [("updated", ["input who removed"])]


@pytest.mark.parametrize(
    "bad, status, words",
    [
        ({"server": "x"}, 404, "'x'"),
        ({"name": "ok"}, 409, "m/ok"),
        ({"name": "../x"}, 400, "not allowed"),
        ({"config": "00000000-0000-4000-8000-00000000ffff"}, 404, "no config"),
        ({"config": {"group": "script", "body": "echo"}}, 400, "line 1"),
        ({"config": {"group": "script", "source": {"plan": "lab", "path": "a"}}}, 404, "'lab'"),
        ({"depends_on": ["m/new"]}, 400, "itself"),
        ({"depends_on": ["m/zz"]}, 404, "m/zz"),
        ({"policy": "always", "interval": 1}, 400, "too short"),
    ],
)
def test_ato_10_ops_15_a_list_is_all_or_nothing_and_the_wrong_item_is_named(application, m, bad, status, words):
    deploy(application, "m", "ok")
    good = {"server": "m", "name": "good", "config": SCRIPT}
    error = application.fails(status, "POST", "/v1/deployments", json=[good, {"server": "m", "name": "new", "config": SCRIPT} | bad])
    assert error["message"].startswith("item 2: ")
    assert words in error["message"]


def test_a_field_that_is_not_there_is_refused_naming_it(application, m):
    for body in ({"server": "m", "name": "a", "config": SCRIPT, "polcy": "once"}, {"server": "m", "name": "a", "config": {"bdy": 1}}):
        assert "unknown field" in application.fails(400, "POST", "/v1/deployments", json=body)["message"]
    error = application.fails(400, "POST", "/v1/deployments", json={"server": "m", "name": "a", "config": {"group": "script"}})
    assert "either 'body' or 'source'" in error["message"]


def test_several_edits_are_all_or_nothing(application, m):
    ids = [deploy(application, "m", name)["id"] for name in "ab"]
    error = application.fails(400, "PATCH", "/v1/deployments", json=[{"id": ids[0], "timeout": 5}, {"id": ids[1], "timeout": -5}])
    assert error["message"].startswith("item 2: ")
    done = application.ok("PATCH", "/v1/deployments", json=[{"id": ids[0], "timeout": 5}, {"id": "m/b", "timeout": None}])
    assert [(one["did"], one["timeout"], one["made_generation"]) for one in done] == [("updated", 5, False), ("updated", None, False)]


def test_a_deployment_is_found_by_id_and_by_server_and_name(application, m):
    made = deploy(application, "m", "a")
    for ref in (made["id"], "m/a"):
        assert application.ok("GET", f"/v1/deployments/{ref}")["id"] == made["id"]
    for ref in ("m/b", "x/a", "a", "00000000-0000-4000-8000-00000000ffff"):
        application.fails(404, "GET", f"/v1/deployments/{ref}")
    application.ok("DELETE", "/v1/deployments/m/a")
    application.fails(410, "GET", f"/v1/deployments/{made['id']}")
    application.fails(404, "GET", "/v1/deployments/m/a")


def test_lists_are_narrowed_by_server_and_status(application, m):
    Agent(application, "n")
    for server, name in (("m", "a"), ("m", "b"), ("n", "a")):
        deploy(application, server, name)
    m.runs("a", 1)
    found = [
        [one["name"] for one in application.ok("GET", f"/v1/deployments{query}")["deployments"]]
        for query in ("", "?server=m", "?status=FAILED", "?server=m&status=IN_PROGRESS", "?server=n&name=b")
    ]
    assert found == [["a", "b", "a"], ["a", "b"], ["a"], ["b"], []]
    application.fails(400, "GET", "/v1/deployments?after=x")


def test_sem_15_a_rerun_with_one_key_is_one_run_and_the_earlier_result_stays_readable(application, m):
    deploy(application, "m", "a")
    first = m.runs("a", 3)
    key = {"Idempotency-Key": "again"}
    answers = [application.ok("POST", "/v1/deployments/m/a/rerun", json={}, headers=key) for _ in range(3)]
    assert [one["generation"]["number"] for one in answers] == [2, 2, 2]
    m.runs("a")
    shown = application.ok("GET", "/v1/deployments/m/a/runs")
    assert [(run["status_code"], run["status"]) for run in shown["runs"]] == [(0, "COMPLETE"), (3, "FAILED")]
    assert [past["cause"] for past in shown["generations"]] == ["rerun", "create"]
    assert application.ok("GET", f"/v1/runs/{first['run']}")["status"] == "FAILED"


# ---------------------------------------------------------------------------------------------------- waits


@pytest.mark.parametrize("code, expected", [(0, ("COMPLETE", "complete")), (3, ("FAILED", "failed"))])
def test_con_10_a_wait_for_what_is_reached_already_ends_at_once(application, m, code, expected):
    deploy(application, "m", "a")
    m.runs("a", code)
    assert settled(application.call("GET", "/v1/deployments/m/a?wait=30")) == expected


def test_con_10_a_wait_ends_when_the_result_comes_at_whatever_moment(application, m):
    names = [f"d{n}" for n in range(60)]
    for name in names:
        deploy(application, "m", name)
    items = m.items()
    m.now(m.claim(*items.values()))

    async def story(client):
        async def waited(n, name):
            for _ in range(n):
                await asyncio.sleep(0)
            return await client.get(f"/v1/deployments/m/{name}?wait=30")

        async def reported(n, name):
            for _ in range(60 - n):
                await asyncio.sleep(0)
            return await send(client, m.signal(items[name]))

        pairs = [job for n, name in enumerate(names) for job in (waited(n, name), reported(n, name))]
        return await asyncio.gather(*pairs)

    answers = talk(application, story)[::2]
    assert {settled(answer) for answer in answers} == {("COMPLETE", "complete")}


def wait_while(application, path, request):
    """The answer of a wait during which something is done."""

    async def story(client):
        waiting = asyncio.ensure_future(client.get(path))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        done = await send(client, request)
        assert done.is_success, done.text
        return await waiting

    return talk(application, story)


def test_sem_06_a_wait_for_a_generation_does_not_end_with_an_older_one(application, m):
    deploy(application, "m", "a")
    old = m.items()["a"]
    m.now(m.claim(old))
    m.now(m.signal(old, "started"))
    changed = {"config": {"group": "script", "body": "#!/bin/sh\nfalse\n"}}
    application.ok("PATCH", "/v1/deployments/m/a", json=changed)
    assert m.now(m.signal(old))["effect"] == "none"
    assert settled(application.call("GET", "/v1/deployments/m/a?wait=0&generation=2")) == ("IN_PROGRESS", None)
    new = m.items()["a"]
    m.now(m.claim(new))
    answer = wait_while(application, "/v1/deployments/m/a?wait=30&generation=2", m.signal(new))
    assert (settled(answer), answer.json()["run"]) == (("COMPLETE", "complete"), new["run"])
    assert settled(application.call("GET", "/v1/deployments/m/a?wait=30&generation=1")) == ("COMPLETE", "superseded")
    assert settled(application.call("GET", "/v1/deployments/m/a?generation=3")) == ("COMPLETE", None)


def test_ux_04_a_wait_ends_when_it_is_superseded_blocked_or_deleted(application, m):
    for name, after in (("a", []), ("b", ["m/a"]), ("c", ["m/b"])):
        deploy(application, "m", name, depends_on=after)
    item = m.items()["a"]
    m.now(m.claim(item))
    answer = wait_while(application, "/v1/deployments/m/c?wait=30", m.signal(item, status_code=1))
    assert (settled(answer), answer.json()["blocked_on"][0]["label"]) == (("IN_PROGRESS", "blocked"), "m/b")
    application.ok("POST", "/v1/deployments/m/a/rerun", json={})
    superseded = "/v1/deployments/m/c?wait=30&generation=1"
    edited = ("PATCH", "/v1/deployments/m/c", {"json": {"inputs": {"x": "y"}}})
    assert settled(wait_while(application, superseded, edited)) == ("IN_PROGRESS", "superseded")
    for by_id in (False, True):
        again = {"server": "m", "name": "c", "config": SCRIPT, "update": True, "depends_on": ["m/b"]}
        made = application.ok("POST", "/v1/deployments", json=again)
        path = f"/v1/deployments/{made['id'] if by_id else 'm/c'}?wait=30"
        assert wait_while(application, path, ("DELETE", "/v1/deployments/m/c", {})).status_code == 410


def test_a_wait_that_is_over_says_where_it_stands(application, m):
    deploy(application, "m", "a")
    assert settled(application.call("GET", "/v1/deployments/m/a?wait=0.05")) == ("IN_PROGRESS", None)
    for query in ("wait=x", "wait=nan", "generation=x"):
        application.fails(400, "GET", f"/v1/deployments/m/a?{query}")


# ---------------------------------------------------------------------------------------------------- what people are shown


def test_sec_01_sec_11_a_secret_is_masked_wherever_a_person_looks(application, m):
    made = deploy(application, "m", "a", secrets={"pw": "s3cr3t-XYZ"}, inputs={"who": "x"})
    item = m.runs("a", 1)
    application.ok("PATCH", "/v1/deployments/m/a", json={"secrets": {"pw": "s3cr3t-ABC"}})
    assert made["inputs"] == {"pw": {"secret": True}, "who": {"value": "x"}}
    paths = [
        "/v1/deployments",
        "/v1/deployments/m/a",
        "/v1/deployments/m/a/why",
        "/v1/deployments/m/a/runs",
        f"/v1/runs/{item['run']}",
        "/v1/configs",
        "/v1/servers",
        "/v1/audit",
    ]
    for path in paths:
        assert "s3cr3t" not in application.call("GET", path).text, path
    assert {one["name"]: one["value"] for one in m.items()["a"]["config"]["inputs"]}["pw"] == "s3cr3t-ABC"


def test_ux_01_what_is_known_of_a_machine_is_told_apart(application):
    application.ok("POST", "/v1/servers", json={"name": "m"})
    deploy(application, "m", "a")
    assert "never seen" in application.ok("GET", "/v1/deployments/m/a")["sentence"]
    application.ok("DELETE", "/v1/servers/m")
    m = Agent(application)
    deploy(application, "m", "a")
    assert application.ok("GET", "/v1/deployments/m/a")["phase"] == "pending"
    item = m.items()["a"]
    assert application.ok("GET", "/v1/deployments/m/a")["phase"] == "delivered"
    m.now(m.claim(item))
    assert application.ok("GET", "/v1/deployments/m/a")["phase"] == "granted"
    m.now(m.signal(item, "started"))
    shown = application.ok("GET", "/v1/deployments/m/a")
    assert (shown["phase"], shown["run"]) == ("running", item["run"])
    application.ok("POST", "/v1/deployments/m/a/rerun", json={})
    assert application.ok("GET", "/v1/deployments/m/a")["phase"] == "pending"


def test_why_names_what_would_change_it(application, m):
    deploy(application, "m", "a", policy="once")
    deploy(application, "m", "b", depends_on=["m/a"])
    m.runs("a", 1)
    assert application.ok("GET", "/v1/deployments/m/b/why")["next"] == "appliance rerun m/a"
    application.ok("PATCH", "/v1/deployments/m/a", json={"config": {"group": "script", "body": "#!/bin/sh\nfalse\n"}})
    found = application.ok("GET", "/v1/deployments/m/a/why")
    assert (found["deployment"]["held"], found["next"]) == (True, "appliance rerun m/a")
    assert any("once" in line for line in found["because"])


def test_the_evidence_of_a_deleted_deployment_can_still_be_read(application, m):
    made = deploy(application, "m", "a")
    item = m.items()["a"]
    m.now(m.claim(item))
    application.ok("DELETE", "/v1/deployments/m/a")
    assert m.now(m.signal(item, stdout="said\n"))["effect"] == "none"
    [run] = application.ok("GET", f"/v1/deployments/{made['id']}/runs")["runs"]
    assert (run["status"], run["effect_why"]) == ("COMPLETE", "the deployment was deleted")
    assert application.ok("GET", f"/v1/runs/{item['run']}")["stdout"] == "said\n"
    application.fails(404, "GET", "/v1/runs/nothing")
