"""A green run says what it left out, and in CI nothing is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]

SUITE = """
import pytest

def test_plain():
    pass

@pytest.mark.real_input
def test_input():
    pass

@pytest.mark.real_peer
def test_peer():
    pass

@pytest.mark.kill
def test_kill():
    pass

def test_skipped():
    pytest.skip("no such tool here")
"""


def run(folder, *words, shared, ci):
    (folder / "test_suite.py").write_text(SUITE)
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "APPLIANCE_SHARED") and not name.startswith("PYTEST")}
    env |= {"APPLIANCE_SHARED": str(folder / "shared")} | ({"CI": "true"} if ci else {})
    if shared:
        (folder / "shared" / "inputs").mkdir(parents=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(TOP / "pyproject.toml")]
    return subprocess.run([*command, str(folder / "test_suite.py"), *words], env=env, cwd=TOP, capture_output=True, text=True)


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_without_the_real_plans_their_tests_are_left_out_and_said_to_be(tmp_path, words):
    done = run(tmp_path, *words, shared=False, ci=False)
    assert done.returncode == 0, done.stdout
    for reason in ("1 real_input (no ../shared", "1 real_peer (no ../shared", "1 kill (run by: make kill)"):
        assert f"left out: {reason}" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout  # workers do not say what was deselected


def test_with_the_real_plans_only_what_has_a_target_of_its_own_is_left_out(tmp_path):
    done = run(tmp_path, shared=True, ci=False)
    assert "left out: 1 kill" in done.stdout
    assert "real_input" not in done.stdout
    assert "3 passed, 1 skipped, 1 deselected" in done.stdout


def test_tests_that_kill_run_when_asked_for(tmp_path):
    assert "1 passed, 4 deselected" in run(tmp_path, "-m", "kill", shared=True, ci=False).stdout


def test_in_ci_a_missing_directory_ends_the_run(tmp_path):
    done = run(tmp_path, shared=False, ci=True)
    assert done.returncode == 4
    assert "nothing may be left out in CI" in done.stderr + done.stdout
    assert run(tmp_path, "-m", "not real_input and not real_peer", "-k", "not skipped", shared=False, ci=True).returncode == 0


def test_in_ci_a_skipped_test_is_a_failure(tmp_path):
    done = run(tmp_path, shared=True, ci=True)
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout
    assert "test_skipped was skipped, and nothing may be left out in CI" in done.stdout
