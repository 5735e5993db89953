"""Every command of `openstack software ...` and every way to log in, by the real client as it is on the package index."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = [pytest.mark.real_peer, pytest.mark.timeout(600)]

SCRIPT = '#!/bin/sh\necho "hello $name"\n'
DEFINITION = """\
inputs:
- name: name
  default: world
- name: count
  type: Number
  default: 3
outputs:
- name: result
- name: err
  error_output: true
options:
  opt1: v1
"""


def made_config(client, name="hello"):
    (client.home / "deploy.sh").write_text(SCRIPT)
    (client.home / "definition.yaml").write_text(DEFINITION)
    words = ("--config-file", "deploy.sh", "--definition-file", "definition.yaml", "--group", "script", name)
    return client.json("software", "config", "create", *words)


def test_configs_are_created_shown_listed_and_deleted(client):
    made = made_config(client)
    assert made["config"] == SCRIPT
    assert made["inputs"][1] == {"name": "count", "type": "Number", "default": 3}
    assert made["outputs"][1] == {"name": "err", "type": "String", "error_output": True}
    with ThreadPoolExecutor(2) as pool:
        shown = pool.submit(client.json, "software", "config", "show", made["id"])
        only = pool.submit(client.ok, "software", "config", "show", "--config-only", made["id"])
        listed = pool.submit(client.json, "software", "config", "list")
        paged = pool.submit(client.json, "software", "config", "list", "--limit", "1", "--marker", made["id"])
        missing = pool.submit(client.fails, "software", "config", "show", "nope")
        bare = pool.submit(client.json, "software", "config", "create", "bare")
    assert shown.result() == made
    assert only.result().strip() == SCRIPT.strip()
    assert made["id"] in [one["id"] for one in listed.result()]
    assert len(paged.result()) <= 1
    assert "onfiguration not found: nope" in missing.result()
    assert (bare.result()["group"], bare.result()["config"]) == ("Heat::Ungrouped", "")
    client.ok("software", "config", "delete", bare.result()["id"], made["id"])
    assert "Unable to delete 1 of the 1 software configs." in client.fails("software", "config", "delete", made["id"])


def test_deployments_are_created_shown_listed_and_deleted(client, lab):
    config = made_config(client, "source")["id"]
    words = ("software", "deployment", "create", "--server", "web-1", "--signal-transport", "NO_SIGNAL")
    values = ("--input-value", "name=bob", "--input-value", "extra=1")
    made = client.json(*words, "--config", config, *values, "--action", "UPDATE", "dep-b")
    assert (made["status"], made["action"], made["server_id"]) == ("IN_PROGRESS", "UPDATE", "web-1")
    lab.client.get("/v1/deployments/web-1/dep-b")
    id = made["id"]
    with ThreadPoolExecutor(2) as pool:
        shown = pool.submit(client.json, "software", "deployment", "show", id)
        long = pool.submit(client.json, "software", "deployment", "show", "--long", id)
        listed = pool.submit(client.json, "software", "deployment", "list", "--server", "web-1", "--long")
        everything = pool.submit(client.json, "software", "deployment", "list")
        metadata = pool.submit(client.ok, "software", "deployment", "metadata", "show", "web-1")
        nothing = pool.submit(client.ok, "software", "deployment", "output", "show", "--all", id)
        missing = pool.submit(client.fails, "software", "deployment", "show", "nope")
        default = pool.submit(client.fails, "software", "deployment", "create", "--config", config, "--server", "s", "dep-t")
        zaqar = pool.submit(
            client.fails, "software", "deployment", "create", "--config", config, "--server", "s", "--signal-transport", "ZAQAR_SIGNAL", "z"
        )
        used = pool.submit(client.fails, "software", "config", "delete", made["config_id"])
    assert shown.result()["status"] == long.result()["status"] == "IN_PROGRESS"
    assert [one["id"] for one in listed.result()] == [id]
    assert id in [one["id"] for one in everything.result()]
    inputs = {one["name"]: one["value"] for one in json.loads(metadata.result())[0]["inputs"]}
    assert (inputs["name"], inputs["count"], inputs["extra"], inputs["deploy_server_id"]) == ("bob", 3, "1", "web-1")
    assert nothing.result().strip() == ""
    assert "nope" in missing.result()
    assert "'NoneType' object has no attribute 'get_token'" in default.result()  # the client's own failure, on any cloud
    assert "Unsupported signal transport ZAQAR_SIGNAL" in zaqar.result()
    assert "Unable to delete 1 of the 1 software configs." in used.result()
    client.ok("software", "deployment", "delete", id)
    assert "Unable to delete 1 of the 1 deployments." in client.fails("software", "deployment", "delete", id)
    assert all(one["id"] != made["config_id"] for one in client.json("software", "config", "list"))


LOGINS = [f"{kind}-{auth}" for kind in ("cloud", "env") for auth in ("admin_token", "password", "http_basic", "none")]


def test_every_way_to_log_in_works(client, lab):
    made_config(client, "there")

    def listed(way: str) -> str:
        kind, _, auth = way.partition("-")
        if kind == "cloud":
            return client.ok("--os-cloud", auth, "software", "config", "list")
        settings = lab.command("heat", "env", "--auth", auth).stdout
        words = f'unset OS_CLOUD; {settings}exec "{client.bin}/openstack" software config list'
        return subprocess.run(["sh", "-c", words], env=client.env(), cwd=client.home, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(2) as pool:
        for way, found in zip(LOGINS, pool.map(listed, LOGINS), strict=True):
            assert "there" in found, way


def test_a_wrong_token_an_endpoint_without_project_and_another_project_are_refused(client, lab):
    base = f"{lab.url}/heat/v1"
    settings = ("--os-cloud", "", "--os-auth-type", "admin_token", "--os-token")
    token = lab.client.profile.token
    with ThreadPoolExecutor(2) as pool:
        wrong = pool.submit(client.fails, *settings, "nope", "--os-endpoint", f"{base}/appliance", "software", "config", "list")
        short = pool.submit(client.fails, *settings, token, "--os-endpoint", base, "software", "config", "list")
        other = pool.submit(client.fails, *settings, token, "--os-endpoint", f"{base}/demo", "software", "config", "list")
        slash = pool.submit(client.ok, *settings, token, "--os-endpoint", f"{base}/appliance/", "software", "config", "list")
    assert "requires authentication" in wrong.result()
    assert "could not be found" in short.result()
    assert "Access was denied" in other.result()
    slash.result()


def test_the_old_command_makes_a_temporary_url_that_takes_the_result(client, lab):
    config = made_config(client, "old")["id"]
    settings = lab.command("heat", "env", "--auth", "password").stdout
    words = f'unset OS_CLOUD; {settings}exec "{client.bin}/heat" deployment-create -c {config} -s elsewhere --timeout 5 dep-old'
    subprocess.run(["sh", "-c", words], env=client.env(), cwd=client.home, capture_output=True, text=True, check=True)
    [derived] = json.loads(client.ok("software", "deployment", "metadata", "show", "elsewhere"))
    url = next(one["value"] for one in derived["inputs"] if one["name"] == "deploy_signal_id")
    report = json.dumps({"result": "R", "deploy_stdout": "out", "deploy_status_code": 0})
    subprocess.run(["curl", "-fsS", "-X", "PUT", "-d", report, url], check=True, capture_output=True)
    [shown] = client.json("software", "deployment", "list", "--server", "elsewhere")
    assert shown["status"] == "COMPLETE"
    assert client.ok("software", "deployment", "output", "show", shown["id"], "result").split() == ["output_value:", "result:", "R"]


def test_the_library_reads_updates_and_deletes(client, lab):
    setup = lab.client.get("/heat/setup")
    words = """
import json, sys
from heatclient import client, exc
heat = client.Client("1", endpoint=sys.argv[1], token=sys.argv[2])
config = heat.software_configs.create(name="lib", group="script", config="#!/bin/sh", inputs=[], outputs=[], options={})
made = heat.software_deployments.create(config_id=config.id, server_id="lib-1", status="IN_PROGRESS", action="CREATE")
done = heat.software_deployments.update(made.id, status="COMPLETE", status_reason="by lib", output_values={"deploy_stdout": "x"})
assert (done.status, done.status_reason, done.output_values) == ("COMPLETE", "by lib", {"deploy_stdout": "x"}), done
again = heat.software_configs.create(name="lib", group="script", config="#!/bin/sh", inputs=[], outputs=[], options={})
done = heat.software_deployments.update(made.id, config_id=again.id)
assert (done.config_id, done.status) == (again.id, "IN_PROGRESS"), done
assert [one.id for one in heat.software_deployments.list(server_id="lib-1")] == [made.id]
assert heat.software_deployments.metadata(server_id="lib-1")[0]["id"] == again.id
heat.software_deployments.delete(made.id)
try:
    heat.software_deployments.get(made.id)
except exc.HTTPNotFound as error:
    print(error)
try:
    heat.resources.signal("nope/x", "r", data={})
except exc.HTTPNotFound as error:
    print(error)
"""
    token = lab.client.profile.token
    done = subprocess.run(
        [str(client.bin / "python"), "-c", words, setup["endpoint"], token], env=client.env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "not found" in done.stdout
    assert "The Stack (nope) could not be found." in done.stdout
