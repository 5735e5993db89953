"""How runs end, and what happens by itself: with a real appliance and a real agent."""

from ..lab import Lab, until


def again(lab: Lab, *options: str) -> None:
    """Serve with other options."""
    lab.stop()
    lab.options = list(options)
    lab.serve()


def test_sem_21_silence_is_overdue_then_lost_and_a_late_report_replaces_that(lab: Lab) -> None:
    again(lab, "--grace", "2s")
    machine = lab.machine("m1")
    lab.deploy(machine, "a", machine.script("a", "sleep 60"), timeout=3)
    machine.start()
    until("the script to run", lambda: machine.count("a"))
    until("its start to be known", lambda: lab.of("m1/a")["phase"] == "running")
    machine.kill()
    until("it to be overdue", lambda: lab.of("m1/a")["phase"] == "overdue")
    found = lab.wait("m1/a", "FAILED")
    assert (found["reason"], found["settled"]) == ("lost", "failed")
    machine.start()
    until("the late report", lambda: lab.of("m1/a")["reason"] == "interrupted")
    assert machine.count("a") == 1


def test_a_failed_attempt_is_tried_again_and_sees_which_it_is(lab: Lab) -> None:
    again(lab, "--retry", "1s")
    machine = lab.machine("m1")
    machine.start()
    lab.deploy(machine, "a", machine.script("a", 'echo "attempt $deploy_attempt"; [ "$deploy_attempt" = 3 ]'), attempts=3)
    lab.wait("m1/a")
    assert [(run["attempt"], run["status"], run["stdout"]) for run in lab.runs("m1/a")] == [
        (1, "FAILED", "attempt 1\n"),
        (2, "FAILED", "attempt 2\n"),
        (3, "COMPLETE", "attempt 3\n"),
    ]
    assert machine.count("a") == 3


def test_cra_01_a_run_that_is_cut_short_is_tried_again_while_attempts_are_left(lab: Lab) -> None:
    again(lab, "--retry", "1s")
    machine = lab.machine("m1")
    machine.start()
    lab.deploy(machine, "a", machine.script("a", f"[ -e {machine.root}/go ] || sleep 60"), attempts=2, policy="once")
    until("the script to run", lambda: machine.count("a"))
    machine.kill()
    (machine.root / "go").touch()
    machine.start()
    lab.wait("m1/a")
    assert [(run["attempt"], run["reason"]) for run in lab.runs("m1/a")] == [(1, "interrupted"), (2, None)]
    assert machine.count("a") == 2


def test_pro_10_a_cancel_ends_what_runs_and_the_neighbours_go_on(lab: Lab) -> None:
    machine = lab.machine("m1")
    machine.start()
    lab.deploy(machine, "a", machine.script("a", "sleep 60"))
    lab.deploy(machine, "b", machine.script("b"))
    until("the script to run", lambda: machine.count("a"))
    lab.command("cancel", "m1/a")
    done = lab.command("wait", "m1/a", "--timeout", "20s", check=1)
    assert "failed (cancelled)" in done.stderr
    lab.wait("m1/b")
    done = lab.command("cancel", "m1/a", check=6)
    assert "there is nothing to cancel" in done.stderr
    machine.stop()
    lab.client.post("/v1/deployments/m1/a/rerun")
    lab.command("cancel", "m1/a")
    assert lab.of("m1/a")["reason"] == "cancelled"
    machine.start()
    lab.deploy(machine, "c", machine.script("c"))
    lab.wait("m1/c")
    assert (machine.count("a"), machine.count("b"), machine.count("c")) == (1, 1, 1)
