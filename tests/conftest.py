"""What every test may use: a database on a real file, an application in this process, and what is left out where something is missing."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from appliance.store.database import Database

    from .application import Application

NEEDS_SHARED = ("real_input", "real_peer")


@pytest.fixture
def database(tmp_path: Path) -> "Iterator[Database]":
    """A new file, with the wall's clock and random ids."""
    from .samples import opened  # here, so that the tests of one room run while another does not even load

    yield from opened(tmp_path)


@pytest.fixture
def application(tmp_path: Path) -> "Iterator[Application]":
    """A new file with a frozen clock and counted ids, its application, and a client for each role."""
    from .application import Application

    with Application(tmp_path / "lab.db") as application:
        yield application


# ---------------------------------------------------------------------------------------------------- what is left out

_left_out: Counter[str] = Counter()


def shared_directory() -> Path | None:
    """Where the real plans and the tools for real peers lie: beside the project, or where APPLIANCE_SHARED says."""
    where = Path(os.environ.get("APPLIANCE_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    return where if (where / "inputs").is_dir() else None


@pytest.hookimpl(trylast=True)  # of what was asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here, or only when asked for by name; where CI is set, nothing may be missing."""
    missing = shared_directory() is None
    asked = config.option.markexpr
    kept, left = [], []
    for item in items:
        needing = [mark for mark in NEEDS_SHARED if item.get_closest_marker(mark)]
        if needing and missing:
            if os.environ.get("CI"):
                raise pytest.UsageError(f"nothing may be left out in CI, and {item.nodeid} needs the directory that APPLIANCE_SHARED names")
            reason = f"{needing[0]} (no ../shared, and APPLIANCE_SHARED does not name it)"
        elif item.get_closest_marker("kill") and "kill" not in asked:
            reason = "kill (run by: make kill)"
        elif item.get_closest_marker("faults") and "faults" not in asked:
            reason = "faults (run by: make faults)"
        else:
            kept.append(item)
            continue
        _left_out[reason] += 1
        left.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(_left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """A skipped test is a failure in CI."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and nothing may be left out in CI: {report.longrepr}"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Take over what a worker process left out; each of them found the same."""
    _left_out.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - _left_out)


def pytest_terminal_summary(terminalreporter) -> None:
    """Say it, so that a green run is not taken for a whole one."""
    for reason, number in sorted(_left_out.items()):
        terminalreporter.write_line(f"left out: {number} {reason}", yellow=True)
