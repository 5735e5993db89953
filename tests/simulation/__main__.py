"""Play many histories: `python -m tests.simulation --seeds N --seconds S --from K --jobs J`."""

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

from .history import History, playground
from .shrink import shrunk


def main() -> int:
    """Play them; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, help="so many histories")
    parser.add_argument("--seconds", type=float, help="as many as this time gives")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--save", type=Path, help="where to write the shortest failing history")
    parser.add_argument("--play", type=Path, help="a saved history to play, with all that was said")
    asked = parser.parse_args()
    if asked.play:
        return _play(asked.play)
    if asked.seeds is None and asked.seconds is None:
        asked.seeds = 1000
    began = time.monotonic()
    if asked.jobs == 1:
        found = [_some(0, asked)]
    else:
        with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
            found = pool.starmap(_some, [(job, asked) for job in range(asked.jobs)])
    took = time.monotonic() - began
    histories, events = (sum(one[n] for one in found) for n in (0, 1))
    print(f"{histories} histories, {events} events in {took:.0f} s: {histories / took / asked.jobs:.0f} a second and job")
    return 1 if any(one[2] for one in found) else 0


def _some(job: int, asked: argparse.Namespace) -> tuple[int, int, int]:
    """Every `jobs`th seed; how many histories, events and failures. Ends at the first failure."""
    until = time.monotonic() + asked.seconds if asked.seconds else float("inf")
    seed, histories, events = asked.first + job, 0, 0
    with playground() as place:
        while time.monotonic() < until and (asked.seeds is None or seed < asked.first + asked.seeds):
            history, violation = place.make(seed)
            histories, events = histories + 1, events + len(history.events)
            if violation is not None:
                print(f"seed {seed}: {violation}", flush=True)
                short = shrunk(place, history, violation)
                print(f"shortest history found ({len(short.events)} of {len(history.events)} events):\n{short.text()}", flush=True)
                if asked.save:
                    asked.save.write_text(short.text())
                return histories, events, 1
            seed += asked.jobs
    return histories, events, 0


def _play(path: Path) -> int:
    trace: list[str] = []
    with playground() as place:
        violation = place.play(History.of(path.read_text()), trace=trace)
    print("\n".join(trace))
    print(violation or "everything held")
    return 1 if violation else 0


if __name__ == "__main__":
    sys.exit(main())
