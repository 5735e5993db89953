"""Exceptions that nobody foresaw: a run that was started has a result, and the agent goes on."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import pytest

from appliance.agent import hooks, loop, passes, process, results

from .conftest import PYTHON, Machine
from .fake import Fake, script

pytestmark = pytest.mark.skipif(sys.executable != PYTHON, reason="patches the agent in this process")


def fail(*_: Any, **__: Any) -> Any:
    raise OverflowError("a secret value")


@pytest.mark.parametrize("where,what", [(results, "gather"), (hooks, "prepare"), (process.Leader, "release"), (process.Leader, "wait")])
def test_what_fails_around_a_start_becomes_its_result(
    machine: Machine, fake: Fake, monkeypatch: pytest.MonkeyPatch, where: Any, what: str
) -> None:
    real, failures = getattr(where, what), [True]

    def once(*args: Any, **how: Any) -> Any:
        return fail() if failures and failures.pop() else real(*args, **how)

    monkeypatch.setattr(where, what, once)
    slow = "sleep 0" if what == "gather" else "sleep 1000"
    fake.change([script(slow, name="a"), script(machine.counter("b"), name="b")])
    said = machine.one_pass(check=1).stderr
    assert "a secret value" not in said
    first, second = fake.of("finished")
    assert (first["outcome"], first["message"]) == ("invalid", "the agent failed at it unexpectedly (OverflowError)")
    assert (second["outcome"], machine.count("b")) == ("ended", 1)
    assert len(fake.of("started")) == 2


def test_the_main_loop_says_one_line_and_goes_on(machine: Machine, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = passes.decide, [True]

    def once(*args: Any, **how: Any) -> Any:
        if failures:
            failures.pop()
            raise KeyError("odd")
        return real(*args, **how)

    monkeypatch.setattr(loop.passes, "decide", once)
    monkeypatch.setattr(loop, "PAUSE", 0.05)
    fake.change([script(machine.counter("a"))])

    def stop() -> None:
        try:
            fake.wait_for(lambda: fake.of("finished"))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    done = machine.agent("run")
    stopper.join()
    assert "agent: cannot go on just now: KeyError: 'odd'\n" in done.stderr
    assert machine.count("a") == 1
