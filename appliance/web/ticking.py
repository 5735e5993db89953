"""Time passes: what is due by itself is done, and how long the file has been open is written down."""

import asyncio
import logging

from appliance.errors import ApplianceError
from appliance.operations.tick import is_due, tick
from appliance.store.database import Database

LOOK_SECONDS = 1.0
WRITE_MS = 30_000

_log = logging.getLogger("appliance.web")


async def tick_for_ever(database: Database) -> None:
    """Look once a second whether anything is due; if nothing is, write the uptime every 30 seconds all the same."""
    written = database.uptime()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            if database.read(is_due) or database.uptime() - written >= WRITE_MS:
                written = database.uptime()
                await database.awrite(tick)
        except ApplianceError as error:  # a full disk, say: the next look tries again
            _log.warning("what is due could not be written: %s", error)
