"""The `script` and `ansible` hooks of heat-agents, unmodified, under our own agent."""

import shutil
from pathlib import Path

import pytest

from ..lab import Lab, Machine
from .tools import ansible, heat_agents

PLAYBOOK = """---
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: count
      ansible.builtin.shell: echo {{{{ who }}}} >> {counts}
    - name: put out
      ansible.builtin.copy:
        content: "{{{{ number + 1 }}}} for {{{{ who }}}}"
        dest: "{{{{ heat_outputs_path }}}}.result"
    - name: fail
      ansible.builtin.command: "false"
      when: fail | default(false) | bool
"""


@pytest.fixture
def machine(lab: Lab) -> Machine:
    """A machine with the real hooks, and with ansible on the agent's PATH."""
    made = lab.machine("m1")
    for name in ("script", "ansible"):
        shutil.copy(heat_agents() / f"heat-config-{name}/install.d/hook-{name}.py", made.hooks / name)
        (made.hooks / name).chmod(0o755)
    made.more |= {"PATH": f"{ansible()}:/usr/bin:/bin", "HOME": str(made.root), "LC_ALL": "C.UTF-8"}
    return made


@pytest.mark.real_peer
@pytest.mark.timeout(1800)  # the first use fetches them
def test_the_real_script_hook_runs_and_reports(lab: Lab, machine: Machine) -> None:
    text = 'echo "hello $who $deploy_action"; echo said >&2; printf ok > "$heat_outputs_path.result"'
    lab.deploy(machine, "a", machine.script("a", text), outputs=[{"name": "result"}], inputs={"who": "world"})
    lab.deploy(machine, "b", machine.script("b", "exit 4"))
    machine.one_pass(check=1)
    machine.one_pass()
    (a,), (b,) = lab.runs("m1/a"), lab.runs("m1/b")
    assert (a["status"], a["stdout"], a["stderr"], a["outputs"]) == ("COMPLETE", "hello world CREATE\n", "said\n", {"result": "ok"})
    assert (b["status"], b["status_code"]) == ("FAILED", 4)
    assert (machine.count("a"), machine.count("b")) == (1, 1)


@pytest.mark.real_peer
@pytest.mark.timeout(1800)
def test_the_real_ansible_hook_runs_and_reports(lab: Lab, machine: Machine) -> None:
    body = PLAYBOOK.format(counts=machine.root / "counts")
    more = {"group": "ansible", "outputs": [{"name": "result"}]}
    lab.deploy(machine, "good", body, inputs={"who": "good", "number": 41}, **more)
    lab.deploy(machine, "bad", body, inputs={"who": "bad", "number": 1, "fail": True}, **more)
    machine.one_pass(check=1)
    machine.one_pass()
    (good,), (bad,) = lab.runs("m1/good"), lab.runs("m1/bad")
    assert (good["status"], good["outputs"]) == ("COMPLETE", {"result": "42 for good"}), good
    assert "PLAY RECAP" in good["stdout"]
    assert bad["status"] == "FAILED"
    assert bad["status_code"] not in (0, None)
    assert (machine.count("good"), machine.count("bad")) == (1, 1)


@pytest.mark.real_peer
@pytest.mark.timeout(1800)
def test_where_ansible_is_missing_nothing_is_called_complete(lab: Lab, machine: Machine) -> None:
    tools = Path(machine.root / "tools")
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {ansible()}/python3 "$@"\n')
    (tools / "python3").chmod(0o755)
    machine.more["PATH"] = f"{tools}:/usr/bin:/bin"
    body = PLAYBOOK.format(counts=machine.root / "counts")
    lab.deploy(machine, "a", body, group="ansible", inputs={"who": "a", "number": 1})
    machine.one_pass(check=1)
    found = lab.of("m1/a")
    assert found["status"] == "FAILED", found
    assert machine.count("a") == 0
