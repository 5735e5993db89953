"""A server with a stock agent: delivery is the grant."""

import msgspec
import pytest

from appliance.config import Input, Output
from appliance.errors import Conflict, NotFound
from appliance.operations import servers, stock
from appliance.operations.stock import Urls
from appliance.store import runs

from ..samples import KEY, push, switch_to
from .site import from_plan, script

URLS = Urls("http://lab:8642")


class Stock:
    """os-collect-config as far as it matters here: it polls, and heat-config-notify reports."""

    def __init__(self, site, name):
        self.site, self.id = site, site.server(name, stock=True).id

    def get(self):
        """The deployments a GET hands out, as they are."""
        if self.site.database.read(stock.has_news, self.id):
            self.site.database.write(stock.deliver, KEY, self.id)
        return self.head()

    def head(self):
        return msgspec.json.decode(self.raw())["deployments"]

    def raw(self):
        return self.site.database.read(stock.current_document, KEY, URLS, self.id)

    def item(self, name):
        [found] = [item for item in self.get() if item["name"] == name]
        return found

    def reports(self, item, body):
        return self.site.database.write(stock.report, KEY, secret_of(item), body)


def inputs(item):
    return {one["name"]: one["value"] for one in item["inputs"]}


def secret_of(item):
    return inputs(item)["deploy_signal_id"].rpartition("/")[2]


OK = {"deploy_stdout": "hello\n", "deploy_stderr": "", "deploy_status_code": 0}


@pytest.fixture
def s(site):
    return Stock(site, "s")


def test_what_is_handed_out_is_granted_by_then(site, s):
    site.deploy("s/a", script(inputs=(Input("who"),), outputs=(Output("result"),)), inputs={"who": "world"}, secrets={})
    assert (s.head(), site.stands("s/a")) == ([], "pending")
    [item] = s.get()
    assert site.stands("s/a") == "granted"
    [run] = site.runs("s/a")
    assert (run.id, run.stands, run.attempt) == (item["id"], "granted", 1)
    assert (inputs(item)["who"], inputs(item)["deploy_signal_verb"]) == ("world", "PUT")
    assert item["outputs"] == [{"name": "result", "type": "String", "error_output": False}]


def test_the_document_is_the_same_bytes_however_often_it_is_fetched_and_whatever_is_reported(site, s):
    site.deploy("s/a")
    site.deploy("s/b")
    s.get()
    before = s.raw()
    s.reports(s.item("a"), OK)
    s.reports(s.item("b"), OK | {"deploy_status_code": 3})
    s.get()
    assert s.raw() == before
    assert site.stands("s/a", "s/b") == ["COMPLETE", "FAILED exit"]


def test_a_report_is_a_result_with_outputs(site, s):
    site.deploy("s/a", script(outputs=(Output("result"),)))
    item = s.item("a")
    assert s.reports(item, OK | {"result": "r", "more": 1}).effect == "recorded"
    output = site.database.read(runs.output_of, item["id"])
    assert (output.outputs, output.stdout, output.stderr) == ({"result": "r", "more": 1}, "hello\n", "")


@pytest.mark.parametrize(
    "body, stands",
    [
        ({}, "COMPLETE"),
        ({"deploy_status_code": None}, "COMPLETE"),
        ({"deploy_status_code": "0"}, "COMPLETE"),
        ({"deploy_status_code": ""}, "FAILED exit"),
        ({"deploy_status_code": 3, "x": 1}, "FAILED exit"),
        ({"deploy_status_code": "-9"}, "FAILED exit"),
        ({"deploy_status_code": "x"}, "FAILED exit"),
        ({"deploy_status_code": [1]}, "FAILED exit"),
        ({"deploy_status_code": 1 << 70}, "FAILED exit"),
        ({"bad": ""}, "FAILED error-output"),
        ([1], "COMPLETE"),
        (123, "COMPLETE"),
        ({"deploy_stdout": {"not": "text"}}, "COMPLETE"),
    ],
)
def test_sem_11_whatever_a_hook_says_is_judged_by_heats_rules(site, s, body, stands):
    site.deploy("s/a", script(outputs=(Output("bad", error_output=True),)))
    s.reports(s.item("a"), body)
    assert site.stands("s/a") == stands


def test_pro_13_a_second_report_has_no_effect_and_is_answered(site, s):
    site.deploy("s/a")
    item = s.item("a")
    assert [s.reports(item, OK).effect, s.reports(item, OK).effect] == ["recorded", "recorded"]
    again = s.reports(item, OK | {"deploy_status_code": 1})
    assert (again.effect, again.status, site.stands("s/a")) == ("none", "COMPLETE", "COMPLETE")


def test_a_rerun_is_a_new_id_and_the_old_one_reports_without_effect(site, s):
    site.deploy("s/a")
    first = s.item("a")
    s.reports(first, OK)
    site.rerun("s/a")
    second = s.item("a")
    assert first["id"] != second["id"]
    assert len(s.get()) == 1
    assert s.reports(first, OK | {"deploy_status_code": 1}).effect == "none"
    assert site.stands("s/a") == "granted"
    s.reports(second, OK)
    assert site.stands("s/a") == "COMPLETE"


def test_a_late_report_of_what_was_replaced_says_nothing_of_how_the_machine_is(site, s):
    site.deploy("s/a", script("old"))
    first = s.item("a")
    site.edit("s/a", config=script("new"))
    second = s.item("a")
    s.reports(second, OK | {"deploy_status_code": 1})
    assert s.reports(first, OK).effect == "none"
    site.edit("s/a", config=script("old"))
    assert site.stands("s/a") == "pending"


def test_a_switch_by_mistake_and_back_between_two_polls_hands_out_nothing(site, s):
    for text in (b"1", b"2"):
        push(site.database, "lab", {"a": b"#!/bin/sh\n# " + text})
    switch_to(site.database, "lab", 1)
    site.deploy("s/a", from_plan("lab", "a"))
    s.reports(s.item("a"), OK)
    before = s.raw()
    switch_to(site.database, "lab", 2)
    switch_to(site.database, "lab", 1)
    s.get()
    assert (s.raw(), site.stands("s/a")) == (before, "COMPLETE")


def test_what_is_blocked_is_withheld_until_what_it_waits_for_is_complete(site, s):
    site.deploy("s/a")
    site.deploy("s/b", depends_on=["s/a"])
    first = s.item("a")
    assert [item["name"] for item in s.get()] == ["a"]
    s.reports(first, OK)
    assert [item["name"] for item in s.get()] == ["a", "b"]


def test_the_item_before_stays_as_it_was_while_the_new_generation_is_blocked(site, s):
    site.deploy("s/a")
    site.deploy("s/b", script("old"), depends_on=["s/a"])
    s.reports(s.item("a"), OK)
    before = s.item("b")
    s.reports(before, OK)
    site.edit("s/b", config=script("new"))
    site.edit("s/a", config=script("new"))
    assert (s.item("b"), site.stands("s/b")) == (before, "blocked")
    s.reports(s.item("a"), OK | {"deploy_status_code": 1})
    assert s.item("b") == before
    site.rerun("s/a")
    s.reports(s.item("a"), OK)
    assert s.item("b")["id"] != before["id"]


def test_a_deleted_one_is_gone_and_its_report_is_answered(site, s):
    site.deploy("s/a")
    item = s.item("a")
    site.delete("s/a")
    assert s.get() == []
    assert s.reports(item, OK).why == "the deployment was deleted"


def test_a_reset_hands_out_everything_anew(site, s):
    site.deploy("s/a")
    first = s.item("a")
    s.reports(first, OK)
    site.reset("s")
    assert s.head() == []
    second = s.item("a")
    assert (second["id"] != first["id"], inputs(second)["deploy_action"]) == (True, "CREATE")


def test_an_edit_that_triggers_nothing_changes_no_byte(site, s):
    site.deploy("s/a", script(inputs=(Input("note", default="", triggers=False),)))
    s.reports(s.item("a"), OK)
    before = s.raw()
    site.edit("s/a", inputs={"note": "x"}, timeout=5, name="z")
    s.get()
    assert s.raw() == before


def test_unknown_urls_and_those_of_an_earlier_rotation_are_not_found(site, s):
    site.deploy("s/a")
    item = s.item("a")
    metadata = URLS.metadata(KEY, site.row("s")).rpartition("/")[2]
    assert site.database.read(stock.whose_metadata, KEY, metadata).name == "s"
    wrong = [metadata[:-1] + ("a" if metadata[-1] != "a" else "b"), "x", "", s.id + ".x", metadata.replace(".", ""), secret_of(item)]
    for secret in wrong:
        with pytest.raises(NotFound):
            site.database.read(stock.whose_metadata, KEY, secret)
    with pytest.raises(NotFound):
        site.database.write(stock.report, KEY, item["id"] + ".x", OK)
    site.database.write(lambda tx: tx.execute("UPDATE server SET rotation = rotation + 1"))
    with pytest.raises(NotFound):
        site.database.read(stock.whose_metadata, KEY, metadata)
    with pytest.raises(NotFound):
        s.reports(item, OK)
    assert site.stands("s/a") == "granted"
    s.reports(s.head()[0], OK)
    assert site.stands("s/a") == "COMPLETE"


def test_sec_11_what_is_kept_of_an_item_is_sealed(site, s):
    site.deploy("s/a", secrets={"pw": "s3cr3t-XYZ"})
    assert inputs(s.item("a"))["pw"] == "s3cr3t-XYZ"
    assert "s3cr3t-XYZ" not in repr(site.rows())


def test_a_server_has_one_kind_of_agent(site, m, s):
    for name, to_stock in (("m", True), ("s", False)):
        with pytest.raises(Conflict):
            site.database.write(servers.edit, name, None, [], [], to_stock, "ann")
    site.server("u")
    site.deploy("u/a", policy="once")
    with pytest.raises(Conflict, match="u/a"):
        site.database.write(servers.edit, "u", None, [], [], True, "ann")
    site.edit("u/a", policy="on-change")
    assert site.database.write(servers.edit, "u", None, [], [], True, "ann").kind == "stock"
