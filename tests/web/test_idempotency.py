"""A request with an Idempotency-Key acts once, whoever repeats it how often, also across a restart."""

import pytest

SCRIPT = {"group": "script", "body": "#!/bin/sh\ntrue\n"}
DEPLOYMENT = {"server": "web-1", "name": "x", "config": SCRIPT}


def keyed(key):
    return {"Idempotency-Key": key}


@pytest.fixture
def served(application):
    application.ok("POST", "/v1/servers", json={"name": "web-1"})
    return application


def number(application, table):
    return len(application.rows()[table])


def test_con_04_twenty_at_once_with_one_key_make_one_deployment_and_get_twenty_equal_answers(served):
    answers = served.together([("POST", "/v1/deployments", {"json": DEPLOYMENT, "headers": keyed("k")})] * 20)
    assert [one.status_code for one in answers] == [201] * 20
    assert len({one.content for one in answers}) == 1
    assert number(served, "deployment") == number(served, "generation") == number(served, "config") == 1
    assert sorted(one.headers.get("Idempotent-Replay", "false") for one in answers) == ["false"] + ["true"] * 19


def test_con_04_twenty_at_once_with_keys_of_their_own_are_twenty_requests(served):
    calls = [("POST", "/v1/deployments", {"json": DEPLOYMENT | {"name": f"x{n}"}, "headers": keyed(f"k{n}")}) for n in range(20)]
    assert [one.status_code for one in served.together(calls)] == [201] * 20
    assert number(served, "deployment") == 20


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", "/v1/deployments", DEPLOYMENT | {"name": "y"}),
        ("POST", "/v1/deployments", [DEPLOYMENT]),
        ("POST", "/v1/configs", SCRIPT),
        ("POST", "/v1/deployments?x=1", DEPLOYMENT),
    ],
)
def test_con_04_the_key_with_another_request_is_refused(served, method, path, body):
    served.ok("POST", "/v1/deployments", json=DEPLOYMENT, headers=keyed("k"))
    error = served.fails(409, method, path, json=body, headers=keyed("k"))
    assert error["code"] == "conflict"
    assert "new key" in error["hint"]


def test_con_04_a_key_works_across_a_restart(served):
    first = served.call("POST", "/v1/deployments", json=DEPLOYMENT, headers=keyed("k"))
    served.__exit__(None, None, None)
    with served:
        again = served.call("POST", "/v1/deployments", json=DEPLOYMENT, headers=keyed("k"))
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["Idempotent-Replay"] == "true"
        assert number(served, "deployment") == 1
        served.fails(409, "POST", "/v1/deployments", json=DEPLOYMENT | {"name": "y"}, headers=keyed("k"))
    served.__enter__()


def test_a_key_belongs_to_the_token_that_used_it(served):
    served.ok("POST", "/v1/configs", "operator", json=SCRIPT, headers=keyed("k"))
    answer = served.call("POST", "/v1/configs", "admin", json=SCRIPT, headers=keyed("k"))
    assert answer.status_code == 201
    assert "Idempotent-Replay" not in answer.headers
    assert number(served, "config") == 2


def test_a_refusal_is_not_kept_so_the_request_can_be_sent_again_when_it_is_possible(served):
    wanted = DEPLOYMENT | {"server": "web-2"}
    served.fails(404, "POST", "/v1/deployments", json=wanted, headers=keyed("k"))
    served.ok("POST", "/v1/servers", json={"name": "web-2"})
    served.ok("POST", "/v1/deployments", json=wanted, headers=keyed("k"))


def test_the_answer_is_that_of_the_first_time_though_things_have_moved(served):
    first = served.ok("POST", "/v1/deployments", json=DEPLOYMENT, headers=keyed("k"))
    served.ok("DELETE", f"/v1/deployments/{first['id']}")
    assert served.ok("POST", "/v1/deployments", json=DEPLOYMENT, headers=keyed("k")) == first
    assert number(served, "deployment") == 1


@pytest.mark.parametrize(
    "path, body", [("/v1/servers", {"name": "web-9"}), ("/v1/tokens", {"name": "ann", "role": "viewer"}), ("/v1/servers/web-1/token", {})]
)
def test_an_answer_with_a_secret_is_not_kept_and_its_repeat_says_so(served, path, body):
    first = served.call("POST", path, json=body, headers=keyed("k"))
    secret = first.json().get("token") or first.json()["join_token"]
    error = served.fails(409, "POST", path, json=body, headers=keyed("k"))
    assert "shown only once" in error["message"]
    served.database.close()
    for file in served.path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_is_empty_or_very_long_is_refused(served, key):
    assert "Idempotency-Key" in served.fails(400, "POST", "/v1/configs", json=SCRIPT, headers=keyed(key))["message"]


@pytest.mark.parametrize("key", ["x" * 255, " ", "a b;c,d", "'; DROP TABLE config; --"])
def test_any_other_key_is_taken(served, key):
    served.ok("POST", "/v1/configs", json=SCRIPT, headers=keyed(key))


def test_switches_act_once(served):
    import io
    import tarfile

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"1"))
    served.ok("POST", "/v1/plans/lab/archive", content=held.getvalue(), headers={"Content-Type": "application/x-tar"})
    answers = served.together([("POST", "/v1/plans/lab/switch", {"json": {"to": 1, "expected": 0}, "headers": keyed("s")})] * 20)
    assert [one.status_code for one in answers] == [200] * 20
    assert len({one.content for one in answers}) == 1
    assert number(served, "switch") == 1


def test_reruns_act_once(served):
    made = served.ok("POST", "/v1/deployments", json=DEPLOYMENT)
    for _ in range(3):
        served.ok("POST", f"/v1/deployments/{made['id']}/rerun", headers=keyed("r"))
    served.ok("POST", f"/v1/deployments/{made['id']}/rerun")
    assert [row[3] for row in served.rows()["generation"]] == [1, 2, 3]
