"""Those who wait in the event loop for a commit that touches their topic."""

import asyncio
from collections import defaultdict


class Waits:
    """Waiters by topic. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self.closing = False

    def wake(self, topics: set[str]) -> None:
        """Wake those who wait for any of `topics`."""
        for topic in topics:
            for waiter in self._waiting.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def close(self) -> None:
        """Wake everybody, and let nobody wait from now on."""
        self.closing = True
        self.wake(set(self._waiting))

    async def wait(self, topics: tuple[str, ...], seconds: float) -> bool:
        """Wait until one of `topics` is touched (True) or the time is over or the appliance is stopping (False).

        A caller reads first and then waits with nothing awaited in between, so no commit falls between the two.
        """
        if self.closing or seconds <= 0:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for topic in topics:
            self._waiting[topic].add(waiter)
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            return False
        finally:
            for topic in topics:
                if topic in self._waiting:
                    self._waiting[topic].discard(waiter)
                    if not self._waiting[topic]:
                        del self._waiting[topic]
        return not self.closing
