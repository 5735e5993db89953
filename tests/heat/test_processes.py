"""With real processes of ours: our agent runs what Heat's users made, and `appliance heat` sets their clients up."""

import configparser
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cli.serving import Shell, served
from ..lab import Lab, until

SCRIPT = '#!/bin/sh\necho "$who $deploy_server_id $deploy_action"\nprintf R > "$heat_outputs_path.result"\n'
BASE = "/heat/v1/appliance"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        made.serve()
        yield made
    finally:
        made.close()


def deploy(lab: Lab, server: str, **values: str) -> str:
    inputs = [{"name": name, "type": "String", "value": value} for name, value in values.items()]
    body = {"name": None, "group": "script", "config": SCRIPT, "inputs": inputs, "outputs": [{"name": "result"}]}
    config = lab.client.post(f"{BASE}/software_configs", body)["software_config"]["id"]
    made = {"server_id": server, "config_id": config, "action": "CREATE", "status": "IN_PROGRESS"}
    return str(lab.client.post(f"{BASE}/software_deployments", made)["software_deployment"]["id"])


def test_our_agent_runs_what_was_made_for_a_server_that_was_not_there_and_closes_it_without_a_signal(lab):
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        foreign.setblocking(False)
        url = f"http://127.0.0.1:{foreign.getsockname()[1]}/signal"
        values = {"who": "me", "deploy_server_id": "nova-1", "deploy_action": "UPDATE", "deploy_signal_transport": "NO_SIGNAL"}
        first = deploy(lab, "m1", **values)
        second = deploy(lab, "m1", who="you", deploy_signal_id=url, deploy_signal_verb="POST", deploy_signal_transport="TEMP_URL_SIGNAL")
        lab.machine("m1").one_pass()
        for id, printed in ((first, "me nova-1 UPDATE\n"), (second, None)):
            shown = lab.client.get(f"{BASE}/software_deployments/{id}")["software_deployment"]
            assert (shown["status"], shown["status_reason"], shown["server_id"]) == ("COMPLETE", "Outputs received", "m1")
            assert shown["output_values"]["result"] == "R"
            assert shown["output_values"]["deploy_status_code"] == 0
            assert printed is None or shown["output_values"]["deploy_stdout"] == printed
        with pytest.raises(BlockingIOError):
            foreign.accept()  # nobody ever called there


def test_another_config_runs_once_more_and_the_same_one_does_not(lab):
    machine = lab.machine("m1")
    id = deploy(lab, "m1", who="1")
    machine.one_pass()
    other = lab.client.post(f"{BASE}/software_configs", {"group": "script", "config": SCRIPT})["software_config"]["id"]
    lab.client.put(f"{BASE}/software_deployments/{id}", {"config_id": other})
    machine.one_pass()
    lab.client.put(f"{BASE}/software_deployments/{id}", {"config_id": other})
    machine.one_pass()
    assert len(lab.runs(id)) == 2
    until("the end", lambda: lab.of(id)["status"] == "COMPLETE")


# ---------------------------------------------------------------------------------------------------- appliance heat


@pytest.fixture
def shell(database, tmp_path, capsys, monkeypatch) -> Iterator[Shell]:
    with served(database) as url:
        yield Shell(tmp_path, url, capsys, monkeypatch)


@pytest.mark.parametrize("auth", ["admin_token", "http_basic", "password"])
def test_clouds_yaml_and_env_say_the_same_and_hold_the_token_of_the_profile(shell, auth):
    yaml, note = shell.ok("heat", "clouds-yaml", "--auth", auth, "--name", "lab")
    assert yaml.startswith(f'clouds:\n  "lab":\n    auth_type: {auth}\n    auth:\n')
    assert "openstack --os-cloud lab software deployment list" in note
    env, _ = shell.ok("heat", "env", "--auth", auth)
    found = dict(word.partition("=")[::2] for line in env.splitlines() for word in shlex.split(line)[1:])
    assert found["OS_AUTH_TYPE"] == auth
    for name, value in found.items():
        if name not in ("OS_AUTH_TYPE", "OS_IDENTITY_API_VERSION", "OS_REGION_NAME"):
            assert f'      {name[3:].lower()}: "{value}"\n' in yaml
    assert "admin-secret" in found.values()


def test_settings_without_a_credential_are_refused_where_that_is_not_switched_on(shell):
    assert "--heat-none" in shell.fails(6, "heat", "clouds-yaml", "--auth", "none")


def test_serve_refuses_requests_without_a_credential_beyond_this_host(shell, tmp_path):
    words = ("serve", "--db", str(tmp_path / "x.db"), "--listen", "0.0.0.0:0", "--insecure-http", "--heat-none")
    assert "--heat-none goes with a loopback listener only" in shell.fails(2, *words)
    words = ("serve", "--db", str(tmp_path / "x.db"), "--listen", "127.0.0.1:0", "--url", "https://lab.example", "--heat-none")
    assert "--heat-none is for clients on this host only" in shell.fails(2, *words)


def test_server_add_and_show_print_the_whole_configuration_for_either_collector(shell):
    shell.ok("server", "add", "old-1", "--stock")
    for collector, wanted in (("request", {"metadata_url"}), ("heat", {"auth_url", "user_id", "password", "project_id", "stack_id"})):
        text, note = shell.ok("server", "show", "old-1", "--stock", "--collector", collector)
        parsed = configparser.ConfigParser(interpolation=None)
        parsed.read_string(text)
        assert parsed["DEFAULT"]["collectors"] == collector
        assert wanted <= set(parsed[collector])
        assert "keep it private" in note
    out, _ = shell.ok("server", "add", "old-2", "--stock", "--collector", "heat")
    assert "[heat]" in out
