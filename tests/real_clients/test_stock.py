"""The real os-collect-config and heat-agents: the whole circle, each collector and transport, and bad weather."""

import json
import re

import pytest

from ..lab import until
from .stock import Agent, configure
from .weather import line_to

pytestmark = [pytest.mark.real_peer, pytest.mark.timeout(600)]

SCRIPT = '#!/bin/sh\necho "hello $name"\nprintf "r-$name" > "$heat_outputs_path.result"\nexit ${code:-0}\n'


def stock(lab, agents, name, url=None):
    """A stock server and its agent, and the whole answer to adding it."""
    added = lab.client.post("/v1/servers", {"name": name, "stock": True})
    agent = Agent(url or lab.url, added["metadata_url"].replace(lab.url, url or lab.url), name)
    agents.append(agent)
    return agent, added


def deploy(lab, server, called, transport, script=SCRIPT, **values):
    """As a client of Heat does: a derived config with its transport, then a deployment of it."""
    base = "/heat/v1/appliance"
    inputs = [{"name": one, "type": "String", "value": value} for one, value in values.items()]
    inputs.append({"name": "deploy_signal_transport", "type": "String", "value": transport})
    body = {"name": called, "group": "script", "config": script, "inputs": inputs, "outputs": [{"name": "result"}]}
    config = lab.client.post(f"{base}/software_configs", body)["software_config"]["id"]
    made = {"server_id": server, "config_id": config, "action": "CREATE", "status": "IN_PROGRESS"}
    return lab.client.post(f"{base}/software_deployments", made)["software_deployment"]["id"]


def shown(lab, id):
    return lab.client.get(f"/heat/v1/appliance/software_deployments/{id}")["software_deployment"]


def test_the_whole_circle_with_no_signal_ends_in_the_outputs(lab, client, agents):
    agent, _ = stock(lab, agents, "circle")
    (client.home / "circle.sh").write_text(SCRIPT)
    (client.home / "circle.yaml").write_text("inputs:\n- name: name\n- name: code\noutputs:\n- name: result\n")
    words = ("--config-file", "circle.sh", "--definition-file", "circle.yaml", "--group", "script", "circle")
    config = client.json("software", "config", "create", *words)["id"]
    create = ("software", "deployment", "create", "--config", config, "--server", "circle", "--signal-transport", "NO_SIGNAL")
    made = client.json(*create, "--input-value", "name=bob", "--input-value", "code=0", "--action", "CREATE", "one")
    agent.run()
    assert shown(lab, made["id"])["status"] == "COMPLETE"
    printed = client.ok("software", "deployment", "output", "show", "--all", made["id"])
    assert "r-bob" in printed
    assert "hello bob" in printed
    assert lab.of("circle/one")["status"] == "COMPLETE"
    marks = set((agent.state / "lib/heat-config/deployed").iterdir())
    agent.run(MODE="force")  # nothing runs twice
    assert set((agent.state / "lib/heat-config/deployed").iterdir()) == marks


def test_every_transport_is_answered_and_a_failure_is_worded_as_heat_words_it(lab, agents):
    agent, _ = stock(lab, agents, "transports")
    made = {
        transport: deploy(lab, "transports", transport.lower(), transport, name=transport, code="3" if transport == "CFN_SIGNAL" else "0")
        for transport in ("TEMP_URL_SIGNAL", "CFN_SIGNAL", "HEAT_SIGNAL", "NO_SIGNAL", "ZAQAR_SIGNAL")
    }
    agent.run()
    for transport, id in made.items():
        found = shown(lab, id)
        assert found["output_values"]["result"] == f"r-{transport}", transport
        if transport == "CFN_SIGNAL":
            assert found["status_reason"] == "deploy_status_code : Deployment exited with non-zero status code: 3"
        else:
            assert (found["status"], found["status_reason"]) == ("COMPLETE", "Outputs received"), transport


def test_an_image_that_speaks_to_heat_needs_our_configuration_and_nothing_else(lab, agents):
    agent, _ = stock(lab, agents, "collector")
    configure(agent, lab.command("server", "show", "collector", "--stock", "--collector", "heat").stdout)
    first = deploy(lab, "collector", "first", "HEAT_SIGNAL", name="a")
    agent.run()
    assert shown(lab, first)["status"] == "COMPLETE"
    rewritten = (agent.state / "etc" / "os-collect-config.conf").read_text()
    assert re.search(r"^collectors = heat$", rewritten, re.MULTILINE)
    second = deploy(lab, "collector", "second", "NO_SIGNAL", name="b")
    agent.run()  # with the configuration that the document itself brought
    assert shown(lab, second)["output_values"]["result"] == "r-b"


def test_odd_configs_beside_it_do_not_keep_a_good_one_from_running(lab, agents):
    agent, _ = stock(lab, agents, "odd")
    base = "/heat/v1/appliance"
    odd = [
        {"name": "../esc", "config": "x"},
        {"name": "request", "group": "os-apply-config", "config": {"deployments": None}},
        {"name": None, "group": None, "config": None},
        {"name": "x" * 255, "group": "os-apply-config", "config": [1]},
        {"name": "same", "group": "os-apply-config", "config": {"a": 1}},
        {"name": "same", "group": "os-apply-config", "config": {"a": 2}},
        {
            "name": "zero",
            "group": "script",
            "config": "",
            "inputs": [{"name": "n", "type": "Number", "value": 7}, {"name": "", "value": {}}],
        },
    ]
    for body in odd:
        config = lab.client.post(f"{base}/software_configs", body)["software_config"]["id"]
        lab.client.post(f"{base}/software_deployments", {"server_id": "odd", "config_id": config})
    good = deploy(lab, "odd", "zz-good", "NO_SIGNAL", name="g")
    agent.run()
    assert shown(lab, good)["status"] == "COMPLETE"


def test_an_appliance_that_is_down_or_starts_again_loses_nothing_the_agent_retries(lab, agents):
    agent, _ = stock(lab, agents, "restart")
    mark = agent.state / "go"
    script = f"#!/bin/sh\ntouch {mark}.started\nwhile [ ! -e {mark} ]; do sleep 0.1; done\necho done\n"
    made = deploy(lab, "restart", "slow", "NO_SIGNAL", script)
    agent.start()
    until("the script to run", lambda: (agent.state / "go.started").exists())
    lab.kill()
    mark.touch()  # the script ends while nobody listens
    until("the result to wait", lambda: list((agent.state / "lib/heat-config/deployed").glob("*.notify.json")))
    lab.serve()
    until("the report", lambda: shown(lab, made)["status"] == "COMPLETE")
    lab.stop()
    lab.serve()
    after = deploy(lab, "restart", "after", "NO_SIGNAL", name="x")
    until("the next one", lambda: shown(lab, after)["status"] == "COMPLETE")
    assert shown(lab, made)["output_values"]["deploy_stdout"] == "done\n"


def test_a_503_while_it_reports_is_retried_and_what_is_not_is_seen_as_delivered_without_a_result(lab, agents):
    with line_to(lab.port) as line:
        lab.client.post("/v1/servers", {"name": "weather", "stock": True})
        lab.options = ["--heat-none", "--url", line.url]
        lab.stop()
        lab.serve()
        added = lab.client.get("/v1/servers/weather/configuration")
        agent = Agent(line.url, added["metadata_url"], "weather")
        agents.append(agent)
        line.bad = True
        put = deploy(lab, "weather", "a-put", "TEMP_URL_SIGNAL", name="put")
        post = deploy(lab, "weather", "b-post", "CFN_SIGNAL", name="post")
        agent.start()
        until("reports to be refused", lambda: line.seen["PUT refused"] >= 2)
        line.bad = False
        until("the report", lambda: shown(lab, put)["status"] == "COMPLETE")
        until("the other report", lambda: shown(lab, post)["status"] == "COMPLETE")
        line.bad = True
        lost = deploy(lab, "weather", "c-lost", "CFN_SIGNAL", name="lost")
        until("a report that is not sent again", lambda: line.seen["POST refused"] == 1)
        line.bad = False
        last = deploy(lab, "weather", "d-last", "CFN_SIGNAL", name="last")
        until("the one after it", lambda: shown(lab, last)["status"] == "COMPLETE")
        found = json.dumps(lab.client.get(f"/v1/deployments/{lost}"))
        assert "delivered, no result since" in found
        assert "delivered, no result since" in shown(lab, lost)["status_reason"] or shown(lab, lost)["status"] == "IN_PROGRESS"
        lab.client.post(f"/v1/deployments/{lost}/rerun")
        until("it to run again", lambda: shown(lab, lost)["status"] == "COMPLETE")
        agent.stop()
        lab.options = ["--heat-none", "--url", lab.url]
        lab.stop()
        lab.serve()
