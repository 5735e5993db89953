"""Deployments by Heat's API: the same objects as the native one's, with Heat's loose rules and what we do better."""

from .edge import SCRIPT


def test_one_made_here_is_seen_natively_and_the_other_way_round(edge):
    made = edge.deploy("web-1", edge.config("setup")["id"])
    native = edge.native(made["id"])
    assert (native["server"]["name"], native["name"], native["status"]) == ("web-1", "setup", "IN_PROGRESS")
    edge.application.ok("POST", "/v1/servers", json={"name": "web-2"})
    body = {"server": "web-2", "name": "base", "config": {"body": SCRIPT, "inputs": [{"name": "who"}]}, "inputs": {"who": "me"}}
    other = edge.application.ok("POST", "/v1/deployments", json=body)
    shown = edge.show(other["id"])
    assert shown["server_id"] == other["server"]["id"]
    assert (shown["status"], shown["input_values"], shown["output_values"]) == ("IN_PROGRESS", {"who": "me"}, None)
    assert [one["id"] for one in edge.listed()] == [made["id"], other["id"]]
    assert [one["name"] for one in edge.metadata("web-2")] == ["base"]


def test_secret_inputs_are_masked(edge):
    edge.application.ok("POST", "/v1/servers", json={"name": "web-2"})
    body = {"server": "web-2", "name": "base", "config": {"body": SCRIPT}, "secrets": {"password": "s3cr3t-XYZ"}}
    id = edge.application.ok("POST", "/v1/deployments", json=body)["id"]
    assert edge.show(id)["input_values"] == {"password": "******"}
    assert "s3cr3t-XYZ" not in edge.call("GET", "/software_deployments/metadata/web-2").text


def test_a_server_is_found_by_id_then_by_name_else_made(edge):
    added = edge.application.ok("POST", "/v1/servers", json={"name": "web-1"})
    for named in (added["id"], "web-1"):
        assert edge.native(edge.deploy(named)["id"])["server"]["id"] == added["id"]
    made = edge.deploy("nova-17")
    assert made["server_id"] == "nova-17"
    server = edge.application.ok("GET", "/v1/servers/nova-17")
    assert (server["id"], server["name"], server["kind"]) == ("nova-17", "nova-17", "unenrolled")
    assert [len(edge.listed(f"?server_id={named}")) for named in (added["id"], "web-1", "nova-17", "nobody")] == [2, 2, 1, 0]


def test_a_removed_server_that_is_named_again_comes_back_without_what_it_had(edge):
    old = edge.deploy("nova-17")["id"]
    edge.application.ok("DELETE", "/v1/servers/nova-17")
    assert edge.metadata("nova-17") == []
    new = edge.deploy("nova-17")["id"]
    assert [one["id"] for one in edge.listed("?server_id=nova-17")] == [new]
    assert edge.call("GET", f"/software_deployments/{old}").status_code == 404
    assert edge.application.call("GET", f"/v1/deployments/{old}").status_code == 410


def test_adding_a_server_takes_over_what_the_heat_edge_only_spoke_of(edge):
    made = edge.deploy("web-1")
    added = edge.application.ok("POST", "/v1/servers", json={"name": "web-1", "labels": ["rack"]})
    assert edge.native(made["id"])["server"] == {"id": added["id"], "name": "web-1"}
    assert edge.show(made["id"])["server_id"] == "web-1"
    assert len(edge.listed("?server_id=web-1")) == 1
    edge.application.fails(409, "POST", "/v1/servers", json={"name": "web-1"})


def test_a_join_token_for_such_a_server_makes_it_one_that_agents_understand(edge):
    made = edge.deploy("web-1")
    edge.application.ok("POST", "/v1/servers/web-1/token")
    assert len(edge.native(made["id"])["server"]["id"]) == 36


def test_such_a_server_can_be_marked_for_a_stock_agent_unless_that_cannot_keep_a_policy(edge):
    made = edge.deploy("old-1")
    for method, path, body in (
        ("PATCH", "/v1/servers/old-1", {"stock": True}),
        ("POST", "/v1/servers", {"name": "old-2", "stock": True}),
    ):
        edge.deploy("old-2")
        edge.application.ok(method, path, json=body)
    assert len(edge.native(made["id"])["server"]["id"]) == 36
    edge.deploy("old-3", edge.config(inputs=[{"name": "deployment_run_policy", "value": "always"}])["id"])
    edge.application.fails(409, "PATCH", "/v1/servers/old-3", json={"stock": True})
    edge.application.fails(409, "POST", "/v1/servers", json={"name": "old-3", "stock": True})


def test_equal_names_and_no_name_are_allowed_and_keep_the_order_of_creation(edge):
    configs = [edge.config(name)["id"] for name in ("b", "same", None, "same", "é", "B", "same", "10", "9", "a", "_", "Z")]
    for id in configs:
        edge.deploy("web-1", id)
    names = [one["name"] for one in edge.metadata("web-1")]
    assert names == [None, "10", "9", "B", "Z", "_", "a", "b", "same", "same", "same", "é"]
    assert [one["id"] for one in edge.metadata("web-1") if one["name"] == "same"] == [configs[1], configs[3], configs[6]]
    edge.application.fails(409, "GET", "/v1/deployments/web-1/same")


def test_the_documents_of_metadata_do_not_depend_on_statuses(edge):
    made = edge.deploy("web-1")
    before = edge.metadata("web-1")
    for status in ("COMPLETE", "FAILED", "BOGUS", "IN_PROGRESS"):
        edge.put(made["id"], status=status)
        assert edge.metadata("web-1") == before


def test_status_by_hand_is_ours_and_frees_those_who_wait(edge):
    made = edge.deploy("web-1", edge.config("first")["id"], status="IN_PROGRESS")
    edge.application.ok("POST", "/v1/servers", json={"name": "web-2"})
    body = {"server": "web-2", "name": "then", "config": {"body": SCRIPT}, "depends_on": ["web-1/first"]}
    then = edge.application.ok("POST", "/v1/deployments", json=body)["id"]
    assert edge.native(then)["phase"] == "blocked"
    edge.put(made["id"], status="FAILED", status_reason="no power")
    assert edge.native(then)["settled"] == "blocked"
    assert (edge.native(made["id"])["status"], edge.native(made["id"])["reason"]) == ("FAILED", "by-hand")
    assert (edge.show(made["id"])["status"], edge.show(made["id"])["status_reason"]) == ("FAILED", "no power")
    edge.put(made["id"], status="COMPLETE")
    assert edge.native(then)["phase"] == "pending"
    assert edge.native(made["id"])["status"] == "COMPLETE"
    assert "set to COMPLETE by the admin" in edge.native(made["id"])["sentence"]


def test_what_was_created_complete_is_never_handed_out(edge):
    stock = edge.stock("old-1")
    edge.deploy("old-1", edge.config("done")["id"], status="COMPLETE")
    edge.deploy("old-1", edge.config("bad")["id"], status="FAILED", status_reason="x")
    edge.deploy("old-1", edge.config("odd")["id"], status="WAITING")
    edge.deploy("old-1", edge.config("none")["id"])
    assert [item["name"] for item in stock.poll()] == ["none", "odd"]


def test_any_other_status_is_kept_verbatim_until_something_moves(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1", edge.config("odd")["id"], status="WAITING", status_reason="for a colleague", action="FROB")
    assert (made["status"], made["status_reason"], made["action"]) == ("WAITING", "for a colleague", "FROB")
    assert edge.native(made["id"])["status"] == "IN_PROGRESS"
    [item] = stock.poll()
    assert edge.show(made["id"])["status"] == "WAITING"
    assert stock.report(item, deploy_stdout="hi", deploy_status_code=0).json() == {"effect": "recorded", "why": None, "status": "COMPLETE"}
    shown = edge.show(made["id"])
    assert (shown["status"], shown["status_reason"]) == ("COMPLETE", "Outputs received")
    assert shown["output_values"] == {"deploy_stdout": "hi", "deploy_stderr": None, "deploy_status_code": 0}


def test_in_progress_on_a_finished_one_moves_nothing(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1", status="COMPLETE")
    edge.put(made["id"], status="IN_PROGRESS")
    assert edge.show(made["id"])["status"] == "IN_PROGRESS"
    assert edge.native(made["id"])["status"] == "COMPLETE"
    assert stock.poll() == []


def test_a_granted_run_reports_in_vain_once_the_status_was_set_by_hand(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1")
    [item] = stock.poll()
    edge.put(made["id"], status="COMPLETE", output_values={"deploy_stdout": "by hand"})
    answer = stock.report(item, deploy_stdout="late", deploy_status_code=1).json()
    assert answer == {"effect": "none", "why": "its status was set to COMPLETE by the admin", "status": "COMPLETE"}
    assert edge.native(made["id"])["status"] == "COMPLETE"
    assert edge.show(made["id"])["output_values"] == {"deploy_stdout": "by hand"}
    [run] = edge.application.ok("GET", f"/v1/deployments/{made['id']}/runs")["runs"]
    assert (run["status"], run["effect"]) == ("FAILED", "none")
    assert stock.report(item, deploy_stdout="late", deploy_status_code=1).json()["effect"] == "none"


def test_another_config_is_always_a_new_generation_and_the_answer_names_it(edge):
    stock = edge.stock("old-1")
    first, second = edge.config("a")["id"], edge.config("a")["id"]
    made = edge.deploy("old-1", first, action="CREATE", status="IN_PROGRESS")
    [item] = stock.poll()
    stock.report(item, deploy_stdout="1", deploy_status_code=0)
    done = edge.put(made["id"], config_id=second)
    assert (done["config_id"], done["status"], done["action"]) == (second, "IN_PROGRESS", "CREATE")
    assert done["output_values"]["deploy_stdout"] == "1"
    assert edge.native(made["id"])["generation"]["cause"] == "heat"
    [again] = stock.poll()
    assert again["id"] != item["id"]
    stock.report(again, deploy_stdout="2", deploy_status_code=3)
    shown = edge.show(made["id"])
    assert shown["status"] == "FAILED"
    assert shown["status_reason"] == "deploy_status_code : Deployment exited with non-zero status code: 3"
    assert shown["output_values"]["deploy_stdout"] == "2"


def test_the_same_config_again_runs_nothing(edge):
    config = edge.config()["id"]
    made = edge.deploy("web-1", config)
    edge.put(made["id"], config_id=config, action="UPDATE")
    assert edge.native(made["id"])["generation"]["number"] == 1
    assert edge.show(made["id"])["action"] == "UPDATE"


def test_an_own_action_is_that_of_the_generation_and_any_other_becomes_update(edge):
    made = edge.deploy("web-1", action="RESUME")
    assert edge.native(made["id"])["generation"]["action"] == "RESUME"
    edge.put(made["id"], config_id=edge.config()["id"], action="SUSPEND")
    assert edge.native(made["id"])["generation"]["action"] == "SUSPEND"
    edge.put(made["id"], config_id=edge.config()["id"], action="POLISH")
    assert edge.native(made["id"])["generation"]["action"] == "UPDATE"
    assert edge.show(made["id"])["action"] == "POLISH"


def test_a_put_that_completes_and_renews_runs_nothing(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1")
    edge.put(made["id"], config_id=edge.config()["id"], status="COMPLETE")
    assert stock.poll() == []
    assert edge.native(made["id"])["status"] == "COMPLETE"


def test_every_put_sets_the_time_and_empty_values_are_not_given(edge):
    made = edge.deploy("web-1", input_values={"a": 1}, status_reason="why", status="COMPLETE", output_values={"x": 1})
    assert "updated_time" not in made
    assert made["output_values"] == {"x": 1}
    edge.application.clock.pass_(61_000)
    done = edge.put(made["id"], input_values={}, output_values=None, status="", status_reason=None, config_id="", server_id="other")
    assert done["updated_time"] == "2023-11-14T22:14:21Z"
    assert {name: one for name, one in done.items() if name != "updated_time"} == made


def test_a_native_rerun_shows_where_it_really_stands(edge):
    made = edge.deploy("web-1", status="COMPLETE", status_reason="by hand", action="FROB")
    edge.application.ok("POST", f"/v1/deployments/{made['id']}/rerun")
    shown = edge.show(made["id"])
    native = edge.native(made["id"])
    assert (shown["status"], shown["action"]) == ("IN_PROGRESS", native["generation"]["action"])
    assert "by hand" not in shown["status_reason"]


def test_a_delete_is_final_and_natively_a_tombstone(edge):
    made = edge.deploy("web-1")
    edge.ok("DELETE", f"/software_deployments/{made['id']}")
    for method in ("GET", "PUT", "DELETE"):
        assert (
            edge.fails(404, method, f"/software_deployments/{made['id']}", json={})["message"]
            == f"Deployment with id {made['id']} not found"
        )
    assert edge.application.call("GET", f"/v1/deployments/{made['id']}").status_code == 410
    assert edge.metadata("web-1") == []


def test_a_delete_is_refused_while_others_depend_on_it(edge):
    made = edge.deploy("web-1", edge.config("first")["id"])
    body = {"server": "web-1", "name": "then", "config": {"body": SCRIPT}, "depends_on": ["web-1/first"]}
    edge.application.ok("POST", "/v1/deployments", json=body)
    assert "web-1/then" in edge.fails(409, "DELETE", f"/software_deployments/{made['id']}")["message"]


def test_lists_page_oldest_first(edge):
    made = [edge.deploy(f"s-{n}")["id"] for n in range(5)]
    assert [one["id"] for one in edge.listed()] == made
    assert [one["id"] for one in edge.listed("?limit=2")] == made[:2]
    assert [one["id"] for one in edge.listed(f"?limit=2&marker={made[1]}")] == made[2:4]
    assert [one["id"] for one in edge.listed("?marker=nope&limit=9&unknown=1")] == made
    assert edge.fails(400, "GET", "/software_deployments?limit=-1")["message"].startswith("Value '-1' is invalid for 'limit'")


def test_what_heat_stumbles_over_is_refused_with_a_sentence(edge):
    config = edge.config()["id"]
    for body in ({"config_id": config}, {"config_id": config, "server_id": ""}, {"config_id": config, "server_id": "x" * 37}):
        assert "server_id" in edge.fails(400, "POST", "/software_deployments", json=body)["message"]
    assert edge.fails(404, "POST", "/software_deployments", json={})["message"] == "Software config with id None not found"
    long = {"config_id": config, "server_id": "s", "stack_user_project_id": "x" * 65}
    assert edge.fails(400, "POST", "/software_deployments", json=long)["type"] == "Invalid"
    for body in ({"status": 7}, {"action": "x" * 256}):
        edge.fails(400, "POST", "/software_deployments", json={"config_id": config, "server_id": "s"} | body)


def test_the_run_policy_comes_from_an_input(edge):
    def config(**fields):
        return edge.config("p", inputs=[{"name": "deployment_run_policy", "type": "String"} | fields])["id"]

    assert edge.native(edge.deploy("web-1", config(default="once"))["id"])["policy"] == "once"
    assert edge.native(edge.deploy("web-1", config(default="once", value="always"))["id"])["policy"] == "always"
    assert edge.native(edge.deploy("web-1", config(value=""))["id"])["policy"] == "on-change"
    bad = {"config_id": config(default="sometimes"), "server_id": "web-1"}
    assert "'sometimes'" in edge.fails(400, "POST", "/software_deployments", json=bad)["message"]
    edge.stock("old-1")
    stock = {"config_id": config(default="always"), "server_id": "old-1"}
    assert "stock" in edge.fails(409, "POST", "/software_deployments", json=stock)["message"]
    made = edge.deploy("web-1", edge.config()["id"])
    edge.put(made["id"], config_id=config(default="per-boot"))
    assert edge.native(made["id"])["policy"] == "per-boot"


def test_another_config_under_a_native_deployment_keeps_its_name_policy_and_inputs(edge):
    edge.application.ok("POST", "/v1/servers", json={"name": "web-2"})
    body = {"server": "web-2", "name": "base", "config": {"body": SCRIPT}, "inputs": {"who": "me"}, "policy": "once"}
    id = edge.application.ok("POST", "/v1/deployments", json=body)["id"]
    edge.put(id, config_id=edge.config("other")["id"])
    native = edge.native(id)
    assert (native["name"], native["policy"], native["inputs"]) == ("base", "once", {"who": {"value": "me"}})
    edge.put(id, config_id=edge.config("p", inputs=[{"name": "deployment_run_policy", "value": "always"}])["id"])
    assert (edge.native(id)["name"], edge.native(id)["policy"]) == ("base", "always")


def test_one_made_here_is_named_as_its_config_and_has_its_policy(edge):
    made = edge.deploy("web-1", edge.config("a", inputs=[{"name": "deployment_run_policy", "value": "once"}])["id"])
    edge.put(made["id"], config_id=edge.config("b")["id"])
    assert (edge.native(made["id"])["name"], edge.native(made["id"])["policy"]) == ("b", "on-change")
