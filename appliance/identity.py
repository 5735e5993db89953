"""Who is asking: whether an agent that speaks with a server's token is the machine that was known by it. Pure."""

from typing import Literal

import msgspec

ALIVE_MS = 120_000
DOUBT_MS = 10_000
BOOTS_KEPT = 32


class Instance(msgspec.Struct, frozen=True):
    """Which machine an agent runs on, as far as it can be read there: machine id, root file system UUID, cloud-init instance id."""

    machine: str | None = None
    root: str | None = None
    cloud: str | None = None


class Who(msgspec.Struct, frozen=True):
    """What every request of an agent says of itself. `journal` is a counter that never falls on one agent state."""

    instance: Instance
    agent_state: str
    boot: str
    journal: int
    version: str = ""
    hooks: list[str] = []


class Known(msgspec.Struct, frozen=True):
    """What is recorded of whoever spoke last. Times in ms.

    `alive_at` is when that agent state was last heard, if ever; `doubted_at` since when all it says carries a journal counter that is too
    low, None when it does not.
    """

    instance: Instance
    agent_state: str | None
    boot: str | None
    boots: list[str]
    journal: int | None
    alive_at: int | None
    doubted_at: int | None = None


Recognised = Literal["known", "first", "rebooted", "state-lost", "rival", "behind", "other-instance", "reverted", "clone"]


def recognise(known: Known, who: Who, now: int) -> Recognised:
    """How `who` relates to what is known.

    known, first, rebooted: it may work. state-lost: the same machine without its journal. rival: a second agent state while the first was
    heard within two minutes; it gets nothing for now. behind: a counter below the recorded one; requests of one agent overtake each other
    on the way, so that is `reverted` only when nothing better came for ten seconds. other-instance, reverted, clone: nothing runs until a
    person decides.
    """
    if known.agent_state is None:
        return "first"
    same_state = known.agent_state == who.agent_state
    if not same_instance(known.instance, who.instance, same_state=same_state):
        return "other-instance"
    if not same_state:
        return "rival" if known.alive_at is not None and abs(now - known.alive_at) < ALIVE_MS else "state-lost"
    if known.boot != who.boot and who.boot in known.boots:
        return "clone"
    if known.journal is not None and who.journal < known.journal:
        late = known.boot == who.boot and (known.doubted_at is None or abs(now - known.doubted_at) < DOUBT_MS)
        return "behind" if late else "reverted"
    return "known" if known.boot == who.boot else "rebooted"


def same_instance(known: Instance, other: Instance, *, same_state: bool) -> bool:
    """Whether two are one machine.

    They differ if a part known to both differs; and where neither root nor cloud id is known to both (containers), an agent state that was
    lost counts as another instance.
    """
    pairs = [(known.machine, other.machine), (known.root, other.root), (known.cloud, other.cloud)]
    if any(one is not None and two is not None and one != two for one, two in pairs):
        return False
    return same_state or any(one is not None and two is not None for one, two in pairs[1:])


def boots_after(boots: list[str], boot: str) -> list[str]:
    """The boots seen, with `boot` as the newest; the oldest are forgotten."""
    return [*(one for one in boots if one != boot), boot][-BOOTS_KEPT:]
