"""When agents last asked: kept in memory and written with a later batch, so that it never delays an answer."""

import asyncio
import contextlib

from appliance.store import servers
from appliance.store.database import Database
from appliance.store.servers import Seen
from appliance.store.tx import Reader

FLUSH_SECONDS = 1.0


class SeenBuffer:
    """What is not written yet. Belongs to one event loop."""

    def __init__(self) -> None:
        self._fresh: dict[str, Seen] = {}

    def note(self, server: str, at: int, delivered: int | None = None) -> None:
        """Its agent asked at `at` (ms); with `delivered` it was handed the snapshot of that commit."""
        before = self._fresh.get(server)
        if delivered is None and before is not None:
            delivered = before.delivered
        self._fresh[server] = Seen(at, delivered)

    def of(self, tx: Reader, server: str) -> Seen | None:
        """When the agent of a server was last heard, by memory and file."""
        written = servers.seen_of(tx, server)
        fresh = self._fresh.get(server)
        if fresh is None or written is None:
            return fresh or written
        return Seen(max(fresh.at, written.at), fresh.delivered if fresh.delivered is not None else written.delivered)

    def forget(self, server: str) -> None:
        """Whoever spoke for a server does so no more."""
        self._fresh.pop(server, None)

    async def flush_for_ever(self, database: Database) -> None:
        """Write what is new once a second, and a last time when cancelled."""
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                await self.flush(database)
        finally:
            with contextlib.suppress(Exception):
                await self.flush(database)

    async def flush(self, database: Database) -> None:
        """Write what is new."""
        rows = [(server, seen.at, seen.delivered) for server, seen in self._fresh.items()]
        if rows:
            self._fresh = {}
            await database.awrite(servers.seen, rows)
