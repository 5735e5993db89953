"""The line to the appliance: joining, bad answers, slow answers, other epochs, signals that are not accepted."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest

from appliance.agent.errors import AgentError, Unreachable
from appliance.agent.wire import Answer, Backoff, Client, check_url

from .conftest import Machine
from .fake import Fake, script


def test_joining_keeps_the_identity_and_says_what_is_next(unjoined: Machine, fake: Fake) -> None:
    done = unjoined.agent("join", fake.url, "join-token", "--name", "web-1")
    assert done.stdout == f"joined {fake.url} as web-1; next: appliance agent run\n"
    body = fake.requests[0][3]
    assert set(body) == {"token", "instance", "agent_state", "boot", "journal", "version", "hooks"}
    assert body["hooks"] == ["plan", "script"]
    unjoined.agent("join", fake.url, "join-token")
    assert fake.requests[1][3]["agent_state"] == body["agent_state"]


@pytest.mark.parametrize(
    "words,code,said",
    [
        (["join", "http://10.1.2.3:1", "t"], 6, "--insecure-http"),
        (["join", "ftp://x", "t"], 2, "no URL"),
        (["join", "http://127.0.0.1:9", "t"], 7, "is the appliance running there"),
        (["join"], 2, "appliance agent join: the following arguments are required: URL, TOKEN; see: appliance agent join --help\n"),
        (["frobnicate"], 2, "see: appliance agent --help\n"),
        (["run"], 5, "join"),
        (["run", "--one-pass"], 5, "join"),
        (["status"], 5, "join"),
        ([], 2, "examples"),
    ],
)
def test_errors_are_short_with_a_remedy_and_an_exit_code(unjoined: Machine, words: list[str], code: int, said: str) -> None:
    done = unjoined.agent(*words, check=code)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["join", "run", "status"])
def test_every_command_has_help_with_an_example(unjoined: Machine, verb: str) -> None:
    out = unjoined.agent(verb, "--help").stdout
    assert f"example:\n  appliance agent {verb} " in out


def test_a_wrong_token_or_name_joins_nothing(unjoined: Machine, fake: Fake) -> None:
    assert "let this machine join: unknown token" in unjoined.agent("join", fake.url, "wrong", check=6).stderr
    assert "web-1, not web-2" in unjoined.agent("join", fake.url, "join-token", "--name", "web-2", check=6).stderr
    assert "join" in unjoined.agent("run", "--one-pass", check=5).stderr


def test_every_request_says_who_asks(machine: Machine, fake: Fake) -> None:
    fake.change([script("true")])
    machine.hook("ansible", "#!/bin/sh\n")
    machine.hook("notes.txt", "", mode=0o644)
    machine.one_pass()
    counters = []
    for method, path, headers, _ in fake.requests[1:]:
        assert headers["Authorization"] == "Bearer agent-token", (method, path)
        assert json.loads(headers["Appliance-Instance"])["cloud"] == "i-1"
        assert len(headers["Appliance-Agent-State"]) == 32
        assert headers["Appliance-Hooks"] == "ansible,plan,script"
        counters.append(int(headers["Appliance-Journal"]))
    assert counters == sorted(counters)


def test_many_runs_are_asked_for_in_several_claims_in_order(machine: Machine, fake: Fake) -> None:
    fake.on_claim = lambda run: {"answer": "refused", "why": "claimed", "message": "elsewhere"}
    fake.change([script("true", name=f"{number:03d}") for number in range(450)])
    machine.one_pass()
    assert [len(claim["runs"]) for claim in fake.claims] == [200, 200, 50]
    asked = [run["deployment"] for claim in fake.claims for run in claim["runs"]]
    assert asked == [item["deployment"] for item in fake.items]


def test_a_lone_run_of_an_idle_agent_is_said_to_have_started_while_it_runs(machine: Machine, fake: Fake) -> None:
    gate = machine.path / "gate"
    machine.start(APPLIANCE_AGENT_BACKOFF="0.05:60")  # what is not rung for is not sent within this test
    fake.wait_for(lambda: fake.polls >= 2)
    fake.change([script(f"while [ ! -e {gate} ]; do sleep 0.02; done")])
    fake.wait_for(lambda: fake.of("started"))
    assert fake.of("finished") == []
    gate.touch()
    fake.wait_for(lambda: fake.of("finished"))


@pytest.mark.parametrize("body", [b"null", b"[]", b"{}", b"<html>", b"\xff\xfe"])
def test_a_bad_document_stops_nothing_and_is_shown(machine: Machine, fake: Fake, body: bytes) -> None:
    fake.change([script(machine.counter("a"), policy="always")])
    machine.one_pass()
    fake.raw_document = body
    done = machine.one_pass(check=6)
    assert "the last good document stays in force" in done.stderr
    assert machine.count("a") == 2
    assert "document" in machine.status()["problem"]
    fake.raw_document = None
    machine.one_pass()
    assert machine.status()["problem"] is None


@pytest.mark.parametrize("epoch", [{"number": 1, "id": "e1"}, {"number": 2, "id": "other"}])
def test_an_appliance_of_another_epoch_starts_nothing_and_gets_no_results(machine: Machine, fake: Fake, epoch: dict[str, Any]) -> None:
    fake.epoch = {"number": 2, "id": "e2"}
    fake.change([script(machine.counter("a"), policy="always")])
    fake.signal_status = lambda signal: (503, {})
    machine.one_pass(check=7)
    fake.signal_status = lambda signal: None
    fake.epoch = epoch
    fake.change([*fake.items, script(machine.counter("b"), name="b")])
    done = machine.one_pass(check=6)
    assert "epoch" in done.stderr
    assert (machine.count("a"), machine.count("b"), fake.signals) == (1, 0, [])
    fake.epoch = {"number": 3, "id": "raised"}
    machine.one_pass()
    assert (machine.count("a"), machine.count("b")) == (2, 1)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422])
def test_a_signal_that_is_not_accepted_is_kept_and_shown_and_not_sent_again(machine: Machine, fake: Fake, status: int) -> None:
    answer = {"error": {"code": "no", "message": "not this one", "hint": ""}}
    fake.signal_status = lambda signal: (status, answer) if signal["kind"] == "finished" else None
    fake.change([script("true")])
    machine.one_pass()
    (kept,) = machine.status()["undelivered"]
    assert (kept["kind"], kept["state"], kept["answer"]) == ("finished", "parked", f"{status} not this one")
    assert "not accepted: finished" in machine.agent("status").stdout
    sent = len(fake.requests)
    machine.one_pass()
    assert [path for _, path, _, _ in fake.requests[sent:] if path.endswith("/signals")] == []


def test_a_result_too_large_for_the_appliance_is_sent_without_its_long_texts(machine: Machine, fake: Fake) -> None:
    large = (413, {"error": {"code": "too-large", "message": "over 100 kB", "hint": ""}})
    fake.signal_status = lambda signal: large if len(json.dumps(signal)) > 100_000 else None
    fake.change([script("head -c 200000 /dev/zero | tr '\\0' x; exit 3")])
    machine.one_pass(check=1)
    (found,) = fake.of("finished")
    assert (found["status_code"], found["truncated"]) == (3, ["stdout"])
    assert machine.status()["undelivered"] == []


def test_a_result_that_is_no_good_request_is_sent_once_more_without_texts_and_outputs(machine: Machine, fake: Fake) -> None:
    bad = (400, {"error": {"code": "invalid", "message": "nested too deep", "hint": ""}})
    fake.signal_status = lambda signal: bad if signal.get("outputs") else None
    fake.change([script('echo small > "$heat_outputs_path.a"; exit 3', outputs=[{"name": "a"}])])
    machine.one_pass(check=1)
    (found,) = fake.of("finished")
    assert (found["status_code"], found["outputs"], found["truncated"]) == (3, {}, ["a"])
    assert machine.status()["undelivered"] == []


def test_a_result_that_stays_no_good_request_is_sent_twice_and_kept(machine: Machine, fake: Fake) -> None:
    asked = []

    def answer(signal: dict[str, Any]) -> tuple[int, Any] | None:
        if signal["kind"] != "finished":
            return None
        asked.append(signal)
        return 400, {}

    fake.signal_status = answer
    fake.change([script("head -c 200000 /dev/zero | tr '\\0' x")])
    machine.one_pass()
    assert [len(signal["stdout"]) > 10_000 for signal in asked] == [True, False]
    assert machine.status()["undelivered"][0]["state"] == "parked"


@pytest.mark.parametrize("status", [401, 408, 429, 500, 503, 302, 200])
def test_a_signal_the_appliance_cannot_take_now_is_sent_again(machine: Machine, fake: Fake, status: int) -> None:
    failures = []

    def answer(signal: dict[str, Any]) -> tuple[int, Any] | None:
        if signal["kind"] != "finished" or len(failures) > 1:
            return None
        failures.append(signal)
        return status, ["a portal's greeting"]

    fake.signal_status = answer
    fake.change([script("true")])
    machine.start()
    fake.wait_for(lambda: fake.of("finished"))
    assert len(failures) == 2


def test_one_signal_that_fails_does_not_hold_up_those_of_other_runs(machine: Machine, fake: Fake) -> None:
    first, second = script("true", name="a"), script("true", name="b")
    fake.signal_status = lambda signal: (500, {}) if signal["deployment"] == first["deployment"] else None
    fake.change([first, second])
    machine.start()
    fake.wait_for(lambda: fake.of("finished", second["deployment"]))
    fake.signal_status = lambda signal: None
    fake.wait_for(lambda: fake.of("finished", first["deployment"]))
    assert [signal["kind"] for signal in fake.signals if signal["deployment"] == first["deployment"]] == ["started", "finished"]


def test_an_appliance_that_drips_bytes_or_says_nothing_is_given_up_and_tried_again(machine: Machine, fake: Fake) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    try:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", insecure_http=False, limit=0.3)
        began, threads = time.monotonic(), threading.active_count()
        with pytest.raises(Unreachable, match="in time"):
            client.request("GET", "/", dict)
        fake.drip = lambda path: True
        with pytest.raises(Unreachable, match="in time"):
            Client(fake.url, insecure_http=False, limit=0.3).request("GET", "/", dict)
        assert time.monotonic() - began < 2
        deadline = time.monotonic() + 2
        while threading.active_count() > threads + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() <= threads + 1
    finally:
        silent.close()
    machine.start(APPLIANCE_AGENT_REQUEST="0.3", APPLIANCE_AGENT_WAIT="0")
    fake.wait_for(lambda: len([1 for method, *_ in fake.requests if method == "GET"]) > 3)
    fake.drip = lambda path: False
    fake.change([script("true")])
    fake.wait_for(lambda: fake.of("finished"))


def test_waits_double_with_jitter_and_honour_retry_after() -> None:
    backoff = Backoff(1, 4)
    for longest in (1, 2, 4, 4):
        assert longest / 2 <= backoff.after() <= longest
    assert backoff.after(Answer(503, {"retry-after": "17"}, b"")) == 17
    assert Answer(503, {"retry-after": "99999999"}, b"").retry_after == 3600
    assert Answer(503, {"retry-after": "soon"}, b"").retry_after is None
    backoff.reset()
    assert backoff.after() <= 1


@pytest.mark.parametrize(
    "url,insecure,good",
    [
        ("https://lab.example", False, True), ("http://127.0.0.1:1", False, True), ("http://localhost/x/", False, True),
        ("http://[::1]:8642", False, True), ("http://lab.example", False, False), ("http://lab.example", True, True),
        ("https://u:p@lab.example", False, False), ("https://lab.example:x", False, False), ("lab.example", True, False),
        ("https://lab.example?x=1", False, False), ("", True, False),
    ],
)  # fmt: skip
def test_which_urls_are_talked_to(url: str, insecure: bool, good: bool) -> None:
    try:
        assert check_url(url, insecure_http=insecure) == url.rstrip("/")
        assert good
    except AgentError:
        assert not good
