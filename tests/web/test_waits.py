"""Those who wait for a commit: woken by their topic, in time, at the end, and never forgotten in memory."""

import asyncio

from appliance.web.waits import Waits


def waiting(waits):
    return sum(len(waiters) for waiters in waits._waiting.values())


async def settled(waits, number):
    """Until so many wait."""
    while waiting(waits) != number:
        await asyncio.sleep(0)


def test_those_who_wait_for_a_topic_are_woken_and_others_are_not():
    async def main():
        waits = Waits()
        a, b, both = (asyncio.create_task(waits.wait(topics, 30)) for topics in (("a",), ("b",), ("a", "b")))
        await settled(waits, 4)
        waits.wake({"a", "c"})
        assert await a
        assert await both
        assert not b.done()
        waits.wake({"b"})
        assert await b
        assert waiting(waits) == 0

    asyncio.run(main())


def test_a_wait_ends_at_its_time_and_leaves_nothing_behind():
    async def main():
        waits = Waits()
        assert not await waits.wait(("a",), 0.01)
        assert not await waits.wait(("a",), 0)
        assert not await waits.wait(("a",), -1)
        assert waiting(waits) == 0
        assert not waits._waiting

    asyncio.run(main())


def test_one_who_goes_away_leaves_nothing_behind():
    async def main():
        waits = Waits()
        task = asyncio.create_task(waits.wait(("a", "b"), 30))
        await settled(waits, 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not waits._waiting
        waits.wake({"a"})

    asyncio.run(main())


def test_when_the_appliance_stops_everybody_is_let_go_and_nobody_waits_any_more():
    async def main():
        waits = Waits()
        tasks = [asyncio.create_task(waits.wait((f"t{n}",), 30)) for n in range(100)]
        await settled(waits, 100)
        waits.close()
        assert await asyncio.gather(*tasks) == [False] * 100
        assert not await waits.wait(("a",), 30)

    asyncio.run(main())


def test_a_wait_over_http_is_answered_by_the_commit_that_settles_it(application):
    """No commit falls between the look and the wait: the answer comes though the change is made at once after the question."""
    application.ok("POST", "/v1/servers", json={"name": "web-1"})
    config = {"group": "script", "body": "#!/bin/sh\ntrue\n"}
    made = application.ok("POST", "/v1/deployments", json={"server": "web-1", "name": "x", "config": config})
    waited, deleted = application.together(
        [("GET", f"/v1/deployments/{made['id']}?wait=30", {}), ("DELETE", f"/v1/deployments/{made['id']}", {})]
    )
    assert deleted.status_code == 204
    assert waited.status_code == 410
