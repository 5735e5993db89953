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
