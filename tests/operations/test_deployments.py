"""Saying what must run where."""

from pathlib import Path

import msgspec
import pytest

from appliance.config import Input
from appliance.errors import Conflict, Gone, Invalid, NotFound
from appliance.operations import configs, deployments
from appliance.operations.deployments import Edit
from appliance.operations.explain import view

from ..samples import KEY
from .site import SCRIPT, script

TYPED = (Input("who"), Input("count", "Number", default=1), Input("note", default="", triggers=False))


def test_a_new_deployment_is_pending_on_its_first_generation(site, m):
    site.deploy("m/a", inputs={"who": "world"})
    one = site.of("m/a")
    assert (site.stands("m/a"), one.generation.number, one.generation.action, one.generation.cause) == ("pending", 1, "CREATE", "create")
    item = m.item("a")
    assert (item["ready"], item["config"]["config"], item["timeout"], item["policy"]) == (True, SCRIPT, 3600, "on-change")
    assert m.inputs("a")["who"] == "world"
    assert m.inputs("a")["deploy_action"] == "CREATE"


def test_a_list_is_created_whole_and_its_items_may_come_after_each_other(site, m):
    site.deploy_all([("m/c", None, {"depends_on": ["m/b"]}), ("m/b", None, {"depends_on": ["m/a"]}), ("m/a", None, {})])
    assert site.stands("m/a", "m/b", "m/c") == ["pending", "blocked", "blocked"]
    assert [item["name"] for item in m.items()] == ["a", "b", "c"]
    assert m.item("c")["after"] == [site.of("m/b").id]


def test_what_is_brought_in_a_list_may_come_after_what_is_new_in_it(site, m):
    site.deploy("m/a")
    site.deploy_all([("m/a", None, {"update": True, "depends_on": ["m/b"]}), ("m/b", None, {})])
    assert site.stands("m/a", "m/b") == ["blocked", "pending"]


def test_one_config_that_many_items_state_is_stored_once(site, m):
    statement = msgspec.structs.replace(script("same"), name="shared")
    site.deploy_all([(f"m/d{n}", statement, {}) for n in range(5)])
    assert len({site.of(f"m/d{n}").terms.config for n in range(5)}) == 1


@pytest.mark.parametrize(
    "bad, kind, words",
    [
        (("m/b", None, {"depends_on": ["m/nothing"]}), NotFound, "m/nothing"),
        (("m/b", None, {"depends_on": ["00000000-0000-4000-8000-000000000000"]}), NotFound, "no such deployment"),
        (("m/b", None, {"depends_on": ["m/b"]}), Invalid, "itself"),
        (("m/a", None, {}), Conflict, "m/a"),
        (("x/b", None, {}), NotFound, "'x'"),
        (("m/b", "00000000-0000-4000-8000-000000000000", {}), NotFound, "no config"),
        (("m/b", script(inputs=TYPED), {}), Invalid, "required input without a value: who"),
        (("m/b", script(inputs=TYPED), {"inputs": {"who": "x", "whom": "y"}}), Invalid, "'whom'"),
        (("m/b", script(inputs=TYPED), {"inputs": {"who": "x", "count": "many"}}), Invalid, "'count'"),
        (("m/b", None, {"inputs": {"deploy_action": "x"}}), Invalid, "set by the appliance"),
        (("m/b", None, {"interval": 60}), Invalid, "policy always"),
        (("m/b", None, {"policy": "always", "interval": 5}), Invalid, "too short"),
        (("m/b", None, {"timeout": 0}), Invalid, "timeout"),
        (("m/b", None, {"inputs": {"deployment_run_policy": "sometimes"}}), Invalid, "'sometimes'"),
        (("m/b c", None, {}), Invalid, "'b c'"),
    ],
)
def test_ato_10_ops_15_sem_31_one_wrong_item_of_a_list_is_named_and_nothing_is_stored(site, m, bad, kind, words):
    before = site.rows()
    with pytest.raises(kind) as caught:
        site.deploy_all([("m/a", None, {}), bad, ("m/z", None, {})])
    assert caught.value.message.startswith("item 2: ")
    assert words in caught.value.message
    assert site.rows() == before


def test_a_name_that_is_taken_is_refused_and_says_what_to_do(site, m):
    site.deploy("m/a")
    with pytest.raises(Conflict) as caught:
        site.deploy("m/a", script("other"))
    assert "deployment update m/a" in caught.value.hint


def test_sem_08_a_circle_is_refused_naming_all_in_it(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {"depends_on": ["m/a"]}), ("m/c", None, {"depends_on": ["m/b"]})])
    before = site.rows()
    with pytest.raises(Invalid) as caught:
        site.edit("m/a", depends_on=["m/c"])
    assert all(name in caught.value.message for name in ("m/a", "m/b", "m/c"))
    with pytest.raises(Invalid):
        site.deploy_all([("m/x", None, {"depends_on": ["m/y"]}), ("m/y", None, {"depends_on": ["m/x"]})])
    assert site.rows() == before


# ---------------------------------------------------------------------------------------------------- updates


def test_an_equal_update_changes_nothing_at_all(site, m):
    site.deploy("m/a", inputs={"who": "x"}, secrets={"pw": "y"})
    before = site.rows()
    assert site.edit("m/a", inputs={"who": "x"}, secrets={"pw": "y"}, policy="on-change", config=script()).did == "unchanged"
    assert site.bring("m/a", script(), inputs={"who": "x"}, secrets={"pw": "y"}, update=True).did == "unchanged"
    assert site.rows() == before


def test_a_change_makes_the_next_generation_and_says_what_changed(site, m):
    site.deploy("m/a", inputs={"who": "x"})
    m.runs("a")
    done = site.edit("m/a", config=script("new"), inputs={"who": "y"})
    assert done.changes == ["script changed, input who changed"]
    one = site.of("m/a")
    assert (one.generation.number, one.generation.action, one.generation.cause, site.stands("m/a")) == (2, "UPDATE", "update", "pending")


def test_the_first_run_on_a_machine_is_a_create_however_often_it_was_changed_before(site, m):
    site.deploy("m/a")
    site.edit("m/a", config=script("better"))
    assert m.inputs("a")["deploy_action"] == "CREATE"
    m.runs("a")
    site.rerun("m/a")
    assert m.inputs("a")["deploy_action"] == "UPDATE"


def test_deploy_action_start_rises_though_the_clock_stands_or_goes_back(site, m):
    site.deploy("m/a")
    starts = [int(m.inputs("a")["deploy_action_start"])]
    for ms in (0, -5_000, 0):
        site.clock.pass_(ms)
        site.rerun("m/a")
        starts.append(int(m.inputs("a")["deploy_action_start"]))
    assert starts == sorted(set(starts))


def test_sem_17_an_input_that_does_not_trigger_runs_nothing_and_is_seen_by_the_next_run(site, m):
    site.deploy("m/a", script(inputs=TYPED), inputs={"who": "x"})
    m.runs("a")
    assert site.edit("m/a", inputs={"note": "quiet"}).did == "updated"
    assert (site.stands("m/a"), site.number("m/a"), m.inputs("a")["note"]) == ("COMPLETE", 1, "quiet")
    site.edit("m/a", inputs={"who": "y"})
    assert (site.stands("m/a"), site.number("m/a"), m.inputs("a")["note"]) == ("pending", 2, "quiet")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "b"},
        {"policy": "per-boot"},
        {"policy": "once"},
        {"timeout": 60},
        {"timeout": None},
        {"depends_on": ["m/other"]},
        {"inputs": {"deployment_run_policy": "per-boot"}},
    ],
)
def test_terms_that_make_no_run_necessary_run_nothing(site, m, change):
    site.deploy("m/other")
    id = site.deploy("m/a")
    m.runs("a")
    etag, changed = m.etag(), site.row("m").changed
    assert site.edit("m/a", **change).did == "updated"
    assert (site.stands(id), site.number(id), site.row("m").changed) == ("COMPLETE", 1, changed)
    assert m.etag() != etag


def test_a_move_to_always_runs_once_more(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.edit("m/a", policy="always", interval=60)
    assert (site.stands("m/a"), site.number("m/a"), m.item("a")["interval"]) == ("pending", 2, 60)
    m.runs("a")
    site.edit("m/a", policy="on-change")
    assert (site.stands("m/a"), site.number("m/a"), m.item("a")["interval"]) == ("COMPLETE", 2, None)


def test_new_dependencies_block_what_waits_and_leave_alone_what_is_done(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {}), ("m/c", None, {})])
    m.runs("b")
    site.edit("m/b", depends_on=["m/a"])
    site.edit("m/c", depends_on=["m/a"])
    assert site.stands("m/b", "m/c") == ["COMPLETE", "blocked"]
    site.edit("m/c", depends_on=[])
    assert site.stands("m/c") == "pending"


def test_several_edits_are_one_commit_or_none(site, m):
    site.deploy_all([("m/a", None, {"depends_on": ["m/b"]}), ("m/b", None, {})])
    turned = [("m/a", Edit(depends_on=[])), ("m/b", Edit(depends_on=["m/a"]))]
    site.database.write(deployments.update, KEY, turned[::-1], "ann")  # in between they are in a circle
    assert site.stands("m/a", "m/b") == ["pending", "blocked"]
    before = site.rows()
    with pytest.raises(Invalid, match="item 2: "):
        site.database.write(deployments.update, KEY, [("m/a", Edit(timeout=5)), ("m/b", Edit(timeout=-5))], "ann")
    assert site.rows() == before


def test_deploy_with_update_over_several_servers_is_one_commit(site):
    for name in ("m1", "m2", "m3"):
        site.machine(name)
    site.deploy("m1/a", script("old"))
    site.deploy("m2/a", script("new"))
    items = [(f"m{n}/a", script("new"), {"update": True}) for n in (1, 2, 3)]
    assert [done.did for done in site.deploy_all(items)] == ["updated", "unchanged", "created"]
    assert len({site.of(f"m{n}/a").generation.commit for n in (1, 3)}) == 1


def test_deploy_again_keeps_the_policy_and_interval_that_it_does_not_name(site, m):
    site.deploy("m/a", policy="always", interval=300)
    assert site.bring("m/a", update=True).did == "unchanged"
    assert (site.of("m/a").terms.policy, site.of("m/a").terms.interval) == ("always", 300)


# ---------------------------------------------------------------------------------------------------- policy, secrets, configs


def test_the_policy_may_come_as_an_input_and_the_option_overrules_it(site, m):
    site.deploy("m/a", inputs={"deployment_run_policy": "per-boot"})
    site.deploy("m/b", policy="once", inputs={"deployment_run_policy": "per-boot"})
    site.deploy("m/c", script(inputs=(Input("deployment_run_policy", default="always"),)))
    assert [site.of(f"m/{name}").terms.policy for name in "abc"] == ["per-boot", "once", "always"]
    assert [m.inputs(name)["deploy_run_policy"] for name in "abc"] == ["per-boot", "once", "always"]
    site.edit("m/a", inputs={"deployment_run_policy": "once"})
    assert site.of("m/a").terms.policy == "once"


def test_sec_11_a_secret_is_sealed_in_the_file_and_clear_only_for_its_machine(site, m):
    site.deploy("m/a", script(inputs=(Input("pw"), Input("n", "Number"))), secrets={"pw": "s3cr3t-XYZ", "n": 987654321})
    everything = repr(site.rows()).encode() + Path(site.database.path + "-wal").read_bytes()
    assert b"s3cr3t-XYZ" not in everything
    assert b"987654321" not in everything
    assert (m.inputs("a")["pw"], m.inputs("a")["n"]) == ("s3cr3t-XYZ", 987654321)
    m.runs("a")
    site.edit("m/a", secrets={"pw": "other"})
    assert (site.number("m/a"), site.stands("m/a")) == (2, "pending")


def test_a_secret_may_become_plain_and_plain_secret_without_a_run(site, m):
    site.deploy("m/a", inputs={"who": "x"})
    m.runs("a")
    site.edit("m/a", secrets={"who": "x"})
    assert isinstance(site.of("m/a").terms.inputs["who"].sealed, str)
    site.edit("m/a", inputs={"who": "x"})
    assert (site.of("m/a").terms.inputs["who"].value, site.number("m/a")) == ("x", 1)


def test_a_message_about_a_secret_does_not_show_it(site, m):
    site.deploy("m/a", secrets={"pw": "s3cr3t-XYZ"})
    with pytest.raises(Invalid) as caught:
        site.edit("m/a", config=script(inputs=(Input("pw", "Number"),)))
    assert "s3cr3t" not in caught.value.message + caught.value.hint


def test_inputs_are_merged_by_an_edit_and_replaced_by_a_deploy(site, m):
    site.deploy("m/a", inputs={"a": "1", "b": "2"})
    site.edit("m/a", inputs={"b": "3"}, drop=["a"])
    assert {name: one.value for name, one in site.of("m/a").terms.inputs.items()} == {"b": "3"}
    site.bring("m/a", inputs={"c": "4"}, update=True)
    assert {name: one.value for name, one in site.of("m/a").terms.inputs.items()} == {"c": "4"}
    with pytest.raises(Invalid, match="no input 'zz'"):
        site.edit("m/a", drop=["zz"])


def test_sem_26_a_config_in_use_cannot_be_deleted(site, m):
    made = site.database.write(configs.create, script(), "ann")
    site.deploy("m/a", made.id)
    with pytest.raises(Conflict, match="m/a"):
        site.database.write(configs.delete, made.id, "ann")
    site.edit("m/a", config=script("other"))
    site.database.write(configs.delete, made.id, "ann")
    with pytest.raises(NotFound, match="deleted"):
        site.deploy("m/b", made.id)


def test_sem_09_items_stand_in_byte_order_and_a_rename_moves_but_runs_nothing(site, m):
    for name in ("a", "9", "B", "10"):
        site.deploy(f"m/{name}")
        m.runs(name)
    assert [item["name"] for item in m.items()] == ["10", "9", "B", "a"]
    site.edit("m/10", name="z")
    assert [item["name"] for item in m.items()] == ["9", "B", "a", "z"]
    assert site.stands("m/9", "m/z") == ["COMPLETE", "COMPLETE"]
    with pytest.raises(Conflict, match="m/a exists already"):
        site.edit("m/z", name="a")


# ---------------------------------------------------------------------------------------------------- deletion


def test_a_deleted_deployment_is_a_tombstone_until_its_agent_has_forgotten_it(site, m):
    id = site.deploy("m/a")
    m.runs("a")
    site.delete("m/a")
    with pytest.raises(Gone):
        site.of(id)
    assert (m.items(), m.tombstones()) == ([], [id])
    assert m.claim_these([], forgotten=[id]) == []
    assert m.tombstones() == []
    site.deploy("m/a")
    assert site.stands("m/a") == "pending"


def test_only_its_own_agent_can_forget_a_tombstone(site, m):
    id = site.deploy("m/a")
    site.delete("m/a")
    site.machine("other").claim_these([], forgotten=[id])
    assert m.tombstones() == [id]


def test_an_agent_that_was_reset_is_still_told_of_a_deletion(site, m):
    id = site.deploy("m/a")
    m.runs("a")
    site.reset("m")
    site.delete("m/a")
    assert m.tombstones() == [id]


def test_what_others_need_cannot_be_deleted_and_they_are_named(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {"depends_on": ["m/a"]})])
    with pytest.raises(Conflict, match="m/b"):
        site.delete("m/a")
    site.delete("m/a", "m/b")
    assert m.items() == []


def test_a_view_says_what_is_known_of_the_machine(site):
    site.server("new")
    site.deploy("new/a")
    one = site.of("new/a")
    shown = site.database.read(lambda tx: view(tx, one, None))
    assert "never seen" in shown.sentence
    assert (shown.phase, shown.settled) == ("pending", None)
