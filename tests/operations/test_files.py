"""Files of a plan beside a config: they are part of what a generation is, and nobody else's machine may fetch them."""

import msgspec
import pytest

from appliance.config import Files, Statement, files_of
from appliance.errors import Conflict, Invalid, NotFound
from appliance.operations import files
from appliance.operations.files import Trees
from appliance.operations.plans import DeletePlan, delete_plan
from appliance.plan import digest_of, manifest, shown

from ..samples import entries, push, switch_to
from .site import script

ROLES = {
    "site/roles/web/tasks.yml": b"one\n",
    "site/run": ("executable", b"#!/bin/sh\n"),
    "site/link": ("symlink", b"roles/web"),
    "sitemap": b"not below site\n",
    "other": b"1",
}
BELOW = {path.removeprefix("site/"): content for path, content in ROLES.items() if path.startswith("site/")}


def with_files(*where, **more):
    return msgspec.structs.replace(script(**more), files=files_of(where))


def checkout(path="/srv/lab", keep=3, prefix="site", **more):
    return Statement(None, "plan", {"path": path, "keep": keep} | more, None, files=files_of([Files("lab", prefix)]))


@pytest.fixture
def lab(site, m):
    """`m/x` has the files below `site` of plan `lab`, version 1 of which is current."""
    push(site.database, "lab", ROLES)
    switch_to(site.database, "lab", 1)
    site.deploy("m/x", with_files(Files("lab", "/site/")))
    return site.database


def digest_below(contents=BELOW):
    return manifest(entries(contents)).digest


def test_the_document_names_the_manifest_of_what_lies_below_the_directory(site, m, lab):
    assert m.item("x")["config"]["files"] == [{"prefix": "site", "digest": shown(digest_below())}]
    assert len(str(m.document())) < 2500  # however many files there are


def test_a_config_without_files_is_as_it_was(site, m, lab):
    site.deploy("m/plain", script())
    assert "files" not in m.item("plain")["config"]
    assert not [part for part in site.of("m/plain").generation.parts if part.startswith("files")]


@pytest.mark.parametrize(
    "change, moves",
    [
        ({"site/roles/web/tasks.yml": b"two\n"}, True),
        ({"site/new": b"new\n"}, True),
        ({"site/run": b"#!/bin/sh\n"}, True),  # no longer executable
        ({"site/link": ("symlink", b"run")}, True),
        ({"sitemap": b"changed"}, False),
        ({"other": b"2"}, False),
    ],
)
def test_a_switch_that_changes_anything_below_makes_a_generation_of_exactly_those(site, m, lab, change, moves):
    site.deploy("m/plain", script())
    push(lab, "lab", ROLES | change)
    done = switch_to(lab, "lab", 2)
    assert done.deployments == ([site.of("m/x").id] if moves else [])
    if moves:
        assert site.of("m/x").generation.detail == "files lab/site changed (version 2)"


def test_a_file_that_goes_makes_one_too_and_back_before_it_ran_runs_nothing(site, m, lab):
    m.runs("x")
    push(lab, "lab", {path: content for path, content in ROLES.items() if path != "site/run"})
    switch_to(lab, "lab", 2)
    assert (site.stands("m/x"), site.number("m/x")) == ("pending", 2)
    switch_to(lab, "lab", 1)
    assert (site.stands("m/x"), site.number("m/x")) == ("COMPLETE", 3)


def test_the_body_and_the_files_of_one_switch_make_one_generation(site, m, lab):
    push(lab, "lab", ROLES | {"site/run": ("executable", b"#!/bin/sh\nnew\n")})
    site.deploy("m/both", msgspec.structs.replace(with_files(Files("lab", "site")), body=None, source=_run()))
    assert switch_to(lab, "lab", 2).deployments == [site.of("m/both").id, site.of("m/x").id]
    assert site.number("m/both") == 2
    assert site.of("m/both").generation.detail == "file lab:site/run changed, files lab/site changed (version 2)"


def _run():
    from appliance.config import PlanFile

    return PlanFile("lab", "site/run")


def test_the_whole_plan_and_two_directories_side_by_side(site, m, lab):
    push(site.database, "extra", {"more/file": b"x", "shortcut": ("symlink", b"more")})
    switch_to(site.database, "extra", 1)
    site.deploy("m/two", with_files(Files("lab", "site"), Files("extra")))
    assert {one["prefix"] for one in m.item("two")["config"]["files"]} == {"site", ""}
    push(site.database, "clash", {"RUN": b"x"})
    switch_to(site.database, "clash", 1)
    with pytest.raises(Invalid, match="'run' differs from 'RUN' in case or accents only"):
        site.deploy("m/clash", with_files(Files("lab", "site"), Files("clash")))


def test_naming_the_same_again_is_unchanged_and_another_directory_is_a_change(site, m, lab):
    again = site.bring("m/x", with_files(Files("lab", "site")), update=True)
    assert again.did == "unchanged"
    changed = site.bring("m/x", with_files(Files("lab", "site/roles")), update=True)
    assert (changed.did, changed.changes) == ("updated", ["files lab/site removed, files lab/site/roles added"])
    site.bring("m/x", script(), update=True)
    push(lab, "lab", ROLES | {"site/roles/web/tasks.yml": b"two\n"})
    assert switch_to(lab, "lab", 2).deployments == []


def test_what_is_not_there_is_refused_and_so_is_a_switch_to_a_version_without_it(site, m, lab):
    with pytest.raises(NotFound, match="plan 'lab' has no directory 'nowhere' in version 1"):
        site.deploy("m/y", with_files(Files("lab", "nowhere")))
    with pytest.raises(NotFound, match="has no directory 'other'"):
        site.deploy("m/y", with_files(Files("lab", "other")))
    with pytest.raises(NotFound, match="no plan 'web'"):
        site.deploy("m/y", with_files(Files("web")))
    push(lab, "lab", {"other": b"1"})
    with pytest.raises(Conflict, match="has no directory 'site' in version 2; m/x uses it, so nothing was switched"):
        switch_to(lab, "lab", 2)
    with pytest.raises(Conflict, match="plan 'lab' is used by m/x"):
        lab.write(delete_plan, DeletePlan("lab", "ann"))


def test_a_link_out_of_the_directory_is_refused_though_it_stays_in_the_plan(site, m, lab):
    push(lab, "lab", ROLES | {"site/link": ("symlink", b"../other")})
    with pytest.raises(Invalid, match="lab/site: 'link': the link points outside the plan"):
        switch_to(lab, "lab", 2)


@pytest.mark.parametrize("prefix", ["a//b", "../x", "a/./b", "a\nb"])
def test_a_prefix_that_is_no_path_is_refused(prefix):
    with pytest.raises(Invalid, match="files lab/"):
        files_of([Files("lab", prefix)])


@pytest.mark.parametrize(
    "statement, why",
    [
        (checkout(path="srv/lab"), "no directory to keep files in"),
        (checkout(path="/srv"), "no directory to keep files in"),
        (checkout(path="/srv/../etc"), "no directory to keep files in"),
        (checkout(keep=0), "out of range"),
        (checkout(extra=1), "does not fit"),
        (msgspec.structs.replace(checkout(), body=None), "does not fit"),
        (msgspec.structs.replace(checkout(), files=()), "has 'files' of one plan"),
    ],
)
def test_a_checkout_that_cannot_be_is_refused(site, m, lab, statement, why):
    with pytest.raises(Invalid, match=why):
        site.deploy("m/y", statement)


def test_a_stock_agent_cannot_be_given_files(site, m, lab):
    site.server("old", stock=True)
    with pytest.raises(Conflict, match="runs a stock agent, which cannot be given files"):
        site.deploy("old/x", with_files(Files("lab")))
    site.server("new")
    site.deploy("new/x", with_files(Files("lab")))
    from appliance.operations import servers

    with pytest.raises(Conflict, match="a stock agent cannot be given the files of new/x"):
        site.database.write(servers.edit, "new", None, [], [], True, "ann")


# ---------------------------------------------------------------------------------------------------- who may fetch what


def fetched(site, m, digest):
    return site.database.read(files.fetch, Trees(), m.id, digest)


def test_a_server_may_fetch_the_manifest_and_the_blobs_of_its_current_generation_only(site, m, lab):
    text = fetched(site, m, digest_below())
    assert digest_of(text) == digest_below()
    assert fetched(site, m, digest_of(b"one\n")).digest == digest_of(b"one\n")
    for other in (b"not below site\n", b"1", b"never stored"):
        with pytest.raises(NotFound, match="for this server"):
            fetched(site, m, digest_of(other))
    n = site.machine("n")
    with pytest.raises(NotFound):
        fetched(site, n, digest_of(b"one\n"))


def test_it_may_go_on_fetching_what_was_granted_when_that_is_current_no_more(site, m, lab):
    ask = m.granted("x")
    push(lab, "lab", ROLES | {"site/roles/web/tasks.yml": b"two\n"})
    switch_to(lab, "lab", 2)
    for word in (b"one\n", b"two\n"):
        assert fetched(site, m, digest_of(word)).digest == digest_of(word)
    m.ends(ask)
    with pytest.raises(NotFound):
        fetched(site, m, digest_of(b"one\n"))
    site.delete("m/x")
    with pytest.raises(NotFound):
        fetched(site, m, digest_of(b"two\n"))


def test_a_file_that_is_the_body_may_be_fetched_too(site, m, lab):
    site.deploy("m/y", msgspec.structs.replace(script(), body=None, source=_run()))
    site.delete("m/x")
    assert fetched(site, m, digest_of(b"#!/bin/sh\n")).size == 10


def test_trees_that_were_asked_for_are_held_a_few_at_a_time(site, m, lab):
    trees = Trees()
    for number in range(files.TREES + 3):
        push(lab, "many", {f"d{number}/f": b"%d" % number for number in range(files.TREES + 3)})
    switch_to(lab, "many", 1)
    for number in range(files.TREES + 3):
        site.deploy(f"m/d{number}", with_files(Files("many", f"d{number}")))
    for number in range(files.TREES + 3):
        assert site.database.read(files.fetch, trees, m.id, digest_of(b"%d" % number)).size
    assert len(trees._held) <= files.TREES
