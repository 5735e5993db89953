"""What agents ask over HTTP: the long-poll, claims and signals."""

import asyncio

import pytest

from appliance.identity import ALIVE_MS, DOUBT_MS

from .talking import SCRIPT, Agent, deploy, send, talk


@pytest.fixture
def m(application):
    return Agent(application)


def poll(application, agent, etag=""):
    method, path, more = agent.document(etag)
    return application.call(method, path, None, **more)


async def begun(client, *requests):
    """Tasks of requests that are in the server and wait there."""
    tasks = [asyncio.ensure_future(send(client, request)) for request in requests]
    for _ in range(50):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


def test_a_document_has_an_etag_and_is_304_while_nothing_desired_changes(application, m):
    deploy(application, "m", "a")
    first = poll(application, m)
    assert (first.status_code, first.headers["Cache-Control"]) == (200, "no-store")
    again = poll(application, m, first.headers["ETag"])
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])


def test_sem_10_twenty_polls_with_signals_flowing_are_304(application, m):
    for name in ("a", "b"):
        deploy(application, "m", name, policy="always")
    for name in ("c", "d"):
        deploy(application, "m", name)
    for name in "abcd":
        m.runs(name)
    etag = poll(application, m).headers["ETag"]
    items = m.items()
    for n in range(20):
        item = items["ab"[n % 2]]
        item["run"] = f"00000000-0000-4000-9000-{n:012d}"
        m.now(m.signal(item, "started", repeat="interval", changed=1))
        m.now(m.signal(item, repeat="interval", status_code=n % 3))
        assert poll(application, m, etag).status_code == 304
    shown = [application.ok("GET", f"/v1/deployments/m/{name}/runs")["runs"] for name in "abcd"]
    assert [len(runs) for runs in shown] == [11, 11, 1, 1]


def test_a_long_poll_is_woken_by_what_is_desired_and_not_by_statuses(application, m):
    deploy(application, "m", "a")
    etag = poll(application, m).headers["ETag"]
    [item] = m.items().values()

    async def story(client):
        [waiting] = await begun(client, m.document(etag, "30"))
        for request in (m.claim(item), m.signal(item, "started"), m.signal(item)):
            assert (await send(client, request)).status_code == 200
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        made = await client.post("/v1/deployments", json={"server": "m", "name": "b", "config": SCRIPT})
        assert made.status_code == 201
        return await waiting

    answer = talk(application, story)
    assert answer.status_code == 200
    assert [one["name"] for one in answer.json()["desired"]["items"]] == ["a", "b"]


def test_a_long_poll_is_woken_when_another_server_frees_what_waits(application, m):
    other = Agent(application, "other")
    deploy(application, "other", "a")
    deploy(application, "m", "b", depends_on=["other/a"])
    etag = poll(application, m).headers["ETag"]
    [item] = other.items().values()
    other.now(other.claim(item))

    async def story(client):
        [waiting] = await begun(client, m.document(etag, "30"))
        await send(client, other.signal(item))
        return await waiting

    [found] = talk(application, story).json()["desired"]["items"]
    assert (found["name"], found["ready"]) == ("b", True)


def test_a_long_poll_of_a_server_that_is_reset_is_no_arrival(application, m):
    deploy(application, "m", "a")
    etag = poll(application, m).headers["ETag"]

    async def story(client):
        [waiting] = await begun(client, m.document(etag, "30"))
        await client.post("/v1/servers/m/reset", json={})
        return await waiting

    assert talk(application, story).status_code == 304
    assert application.ok("GET", "/v1/servers/m")["agent"] is None
    assert m.items()["a"]["number"] == 2
    assert application.ok("GET", "/v1/servers/m")["agent"] is not None


def test_a_long_poll_ends_when_its_token_is_revoked_or_its_server_removed(application, m):
    other = Agent(application, "other")
    etags = [poll(application, agent).headers["ETag"] for agent in (m, other)]

    async def story(client):
        waiting = await begun(client, m.document(etags[0], "30"), other.document(etags[1], "30"))
        await client.delete("/v1/servers/m")
        removed = await waiting[0]
        assert not waiting[1].done()
        waiting[1].cancel()
        return removed.status_code

    assert talk(application, story) == 401


def test_a_long_poll_ends_when_another_agent_has_taken_over(application, m):
    etag = poll(application, m).headers["ETag"]
    second = dict(m.says) | {"Appliance-Agent-State": "other", "Appliance-Instance": '{"machine": "m", "root": "r"}'}
    m.says["Appliance-Instance"] = '{"machine": "m", "root": "r"}'
    application.database.write(lambda tx: tx.execute("UPDATE server SET root = 'r'"))

    async def story(client):
        [waiting] = await begun(client, m.document(etag, "30"))
        application.clock.pass_(ALIVE_MS)
        m.says, mine = second, m.says
        accepted = await send(client, m.document())
        m.says = mine
        await client.post("/v1/deployments", json={"server": "m", "name": "a", "config": SCRIPT})
        return accepted.status_code, await waiting

    accepted, answer = talk(application, story)
    assert (accepted, answer.status_code, answer.json()["error"]["code"]) == (200, 409, "clone")


def test_a_wait_of_another_kind_than_a_number_is_refused(application, m):
    for wait in ("nan", "x", ""):
        assert "'wait'" in m.fails(400, m.document(wait=wait))["message"]
    for wait in ("-5", "-inf"):
        assert m.now(m.document(wait=wait))["server"]["name"] == "m"


@pytest.mark.parametrize(
    "header, value",
    [
        ("Appliance-Journal", "-1"),
        ("Appliance-Journal", "x"),
        ("Appliance-Journal", "9" * 30),
        ("Appliance-Instance", "no json"),
        ("Appliance-Instance", '{"machine": 5}'),
    ],
)
def test_a_malformed_header_is_refused_naming_no_secret(application, m, header, value):
    method, path, more = m.document()
    more["headers"][header] = value
    assert "malformed" in m.fails(400, (method, path, more))["message"]
    del more["headers"][header]
    assert header.lower() in m.fails(400, (method, path, more))["message"]


# ---------------------------------------------------------------------------------------------------- who is asking


def with_root(application, agent):
    """A machine whose file system can be read: it may lose its state without becoming another one."""
    application.database.write(lambda tx: tx.execute("UPDATE server SET root = 'r'"))
    agent.says["Appliance-Instance"] = f'{{"machine": "{agent.name}", "root": "r"}}'


def test_a_rival_gets_409_is_shown_and_cannot_keep_the_first_alive_by_its_reports(application, m):
    with_root(application, m)
    deploy(application, "m", "a")
    item = m.runs("a")
    first = dict(m.says)
    m.says["Appliance-Agent-State"] = "second"
    application.clock.pass_(ALIVE_MS - 1)
    assert m.fails(409, m.document())["code"] == "clone"
    assert m.fails(409, m.claim(item))["code"] == "clone"
    m.now(m.signal(item | {"run": "00000000-0000-4000-9000-000000000001"}))
    assert application.ok("GET", "/v1/servers/m")["rival"]["agent_state"] == "second"
    m.says, second = first, m.says
    m.items()
    m.says = second
    application.clock.pass_(ALIVE_MS)
    assert list(m.items()) == ["a"]
    shown = application.ok("GET", "/v1/servers/m")
    assert (shown["rival"], shown["trouble"]) == (None, None)


def test_another_machine_is_409_until_the_server_is_reset(application, m):
    deploy(application, "m", "a")
    m.runs("a")
    m.says["Appliance-Instance"] = '{"machine": "another"}'
    for _ in range(2):
        assert m.fails(409, m.document())["code"] == "trouble"
    shown = application.ok("GET", "/v1/servers/m")["trouble"]
    assert shown["kind"] == "other-instance"
    commit = application.database.commit_no
    m.fails(409, m.document())
    assert application.database.commit_no == commit
    application.ok("POST", "/v1/servers/m/reset", json={})
    assert m.items()["a"]["action"] == "CREATE"
    m.runs("a")


def test_an_overtaken_request_is_503_and_the_next_one_is_answered(application, m):
    deploy(application, "m", "a")
    overtaken = m.document()
    m.runs("a")
    method, path, more = overtaken
    answer = application.call(method, path, None, **more)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    application.clock.pass_(DOUBT_MS)
    assert list(m.items()) == ["a"]
    assert application.call(method, path, None, **more).status_code == 503
    application.clock.pass_(DOUBT_MS)
    assert m.fails(409, overtaken)["code"] == "trouble"


# ---------------------------------------------------------------------------------------------------- claims and signals


def test_pro_13_unknown_runs_and_malformed_ids_are_404_and_a_late_result_is_200_without_effect(application, m):
    deploy(application, "m", "a")
    item = m.runs("a")
    for change in ({"deployment": "x"}, {"generation": "x"}, {"run": "x"}, {"deployment": "00000000-0000-4000-8000-00000000ffff"}):
        assert m.fails(404, m.signal(item | change))["code"] == "not-found"
    found = m.now(m.signal(item, status_code=9))
    assert (found["effect"], found["status"]) == ("none", "COMPLETE")
    assert found["why"]
    assert m.now(m.signal(item)) == {"effect": "recorded", "why": None, "status": "COMPLETE"}


@pytest.mark.parametrize("body", [{}, {"kind": "x"}, {"kind": "finished", "outcome": "fine"}, {"kind": "released", "why": "so"}, [], 5])
def test_a_malformed_report_is_400(application, m, body):
    deploy(application, "m", "a")
    item = m.items()["a"]
    m.now(m.claim(item))
    method, path, more = m.signal(item)
    base = {"deployment": item["deployment"], "generation": item["generation"], "outcome": "ended"}
    more["json"] = base | body if isinstance(body, dict) else body
    m.fails(400, (method, path, more))


def test_con_03_what_is_seen_can_be_reported_at_once(application, m):
    async def story(client):
        seen, etag = set(), ""

        async def create():
            for n in range(100):
                made = await client.post("/v1/deployments", json={"server": "m", "name": f"d{n}", "config": SCRIPT})
                assert made.status_code == 201

        creating = asyncio.ensure_future(create())
        while len(seen) < 100:
            answer = await send(client, m.document(etag, "5"))
            etag = answer.headers["ETag"]
            new = [item for item in answer.json()["desired"]["items"] if item["deployment"] not in seen] if answer.content else []
            seen.update(item["deployment"] for item in new)
            for item in new:
                claimed = await send(client, m.claim(item))
                assert claimed.json()["answers"][0]["answer"] == "granted"
                assert (await send(client, m.signal(item, "started"))).status_code == 200
                assert (await send(client, m.signal(item))).json()["effect"] == "recorded"
        await creating

    talk(application, story)
    assert {one["status"] for one in application.ok("GET", "/v1/deployments?server=m")["deployments"]} == {"COMPLETE"}


def test_con_01_fifty_creates_and_fifty_reports_at_once_are_all_there(application, m):
    for n in range(50):
        deploy(application, "m", f"old-{n}")
    items = list(m.items().values())
    m.now(m.claim(*items))

    async def story(client):
        creates = [client.post("/v1/deployments", json={"server": "m", "name": f"new-{n}", "config": SCRIPT}) for n in range(50)]
        reports = [send(client, m.signal(item, status_code=n)) for n, item in enumerate(items)]
        return await asyncio.gather(*[one for pair in zip(creates, reports, strict=True) for one in pair])

    answers = talk(application, story)
    assert {answer.status_code for answer in answers} == {200, 201}
    commits = [answer.json()["generation"]["commit"] for answer in answers[::2]]
    assert len(set(commits)) == 50
    assert len(m.items()) == 100
    codes = [application.ok("GET", f"/v1/runs/{item['run']}")["status_code"] for item in items]
    assert codes == list(range(50))
