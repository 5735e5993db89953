"""Some histories, those that failed once, and faults planted to see that they are found. `make simulate` plays many more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .faults import FAULTS, Fault, planted
from .history import History, Playground, playground
from .shrink import shrunk

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
HISTORIES = 60
WITHIN = 400  # histories in which a planted fault is found, from any seed on; most are in the first ten
# Where to begin, so that it takes no time: a little before a history that finds it.
BEGIN = {
    "grant_without_the_generation_check": 110, "claim_answers_not_remembered": 44, "complete_at_once_though_it_was_left": 84,
    "finished_not_idempotent": 62, "release_keeps_the_rerun": 20, "switch_moves_one_of_many": 116,
    "grant_without_the_dependency_check": 216, "sent_is_taken_for_delivered": 62, "once_forgets_its_own_run": 36,
}  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[Playground]:
    with playground() as found:
        yield found


def test_what_must_hold_holds_in_some_histories(place):
    for seed in range(HISTORIES):
        history, violation = place.make(seed)
        assert violation is None, f"seed {seed}: {violation}\n{history.text()}"


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_failed_once_holds(place, path):
    assert place.play(History.of(path.read_text())) is None


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(place: Playground, fault: Fault):
    with planted(fault):
        begin = BEGIN.get(fault.__name__, 0)
        for seed in range(begin, begin + WITHIN):
            history, violation = place.make(seed)
            if violation is not None:
                break
        else:
            raise AssertionError(f"{fault.__name__} was not found in {WITHIN} histories")
    assert place.play(history) is None, "without the fault this very history must hold"


def test_a_history_can_be_played_again_and_made_shorter(place):
    fault = next(fault for fault in FAULTS if fault.__name__ == "dependants_left_behind")
    with planted(fault):
        history, violation = next(made for seed in range(WITHIN) if (made := place.make(seed))[1] is not None)
        assert violation is not None
        assert str(place.play(history)) == str(violation)
        short = shrunk(place, history, violation, tries=60)
        assert len(short.events) <= len(history.events)
        assert place.play(History.of(short.text())) is not None


def test_a_seed_makes_one_history(place):
    for seed in range(5):
        (first, _), (second, _) = place.make(seed), place.make(seed)
        assert first == second
