"""Which names are allowed: they end in URLs, environments, terminals and file names."""

import pytest

from appliance.errors import Invalid
from appliance.names import check_input, check_label, check_name, check_uuid, check_word, is_uuid

NASTY = [
    "", " ", "a b", "a\n", "\na", "a\0", "a/b", "../a", "..", ".", ".a", "-a", "a\u00e9", "\u00e9", "a\u202eb", "a;b", "a$b", "a'b", '"',
    "a\\b", "<script>", "a\x1b[31m", "a\u0301", "\ud800", "\uff41",
]  # fmt: skip


@pytest.mark.parametrize("name", ["a", "A", "0", "web-1", "web.lab.example", "a_b", "9lives", "a" * 255])
def test_names_of_plans_servers_deployments_and_tokens(name):
    assert check_name("plan", name) == name


@pytest.mark.parametrize("name", [*NASTY, "_a", "a:b", "a=b", "a" * 256])
def test_names_that_are_refused_are_shown_with_what_is_allowed(name):
    with pytest.raises(Invalid, match=r"^plan name .* is not allowed$") as caught:
        check_name("plan", name)
    assert "letters, digits" in caught.value.hint
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("label", ["web", "rack=3", "os:debian", "a.b-c_d", "a" * 63])
def test_labels(label):
    assert check_label(label) == label


@pytest.mark.parametrize("label", [*NASTY, "=a", "a" * 64])
def test_labels_that_are_refused(label):
    with pytest.raises(Invalid):
        check_label(label)


@pytest.mark.parametrize("word", ["script", "docker-compose", "os_x", "Heat::Ansible", "-x", "_", "a" * 255])
def test_words_for_groups_and_outputs(word):
    assert check_word("group", word) == word


@pytest.mark.parametrize("word", [one for one in NASTY if one not in ("-a",)] + ["a.b", "a" * 256])
def test_words_that_are_refused(word):
    with pytest.raises(Invalid):
        check_word("group", word)


@pytest.mark.parametrize("name", ["a", "_a", "A1", "a.b", "a:b", "a-b", "deploy_server_id", "a" * 255])
def test_names_of_inputs(name):
    assert check_input(name) == name


@pytest.mark.parametrize("name", [*NASTY, "1a", "a=b", "a" * 256])
def test_names_of_inputs_that_are_refused(name):
    with pytest.raises(Invalid):
        check_input(name)


def test_ids_minted_by_clients_are_lower_case_uuids():
    good = "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert check_uuid("run", good) == good
    for bad in (good.upper(), good.replace("-", ""), good + "\n", good[:-1], good + "0", "{" + good + "}", "", "run-1"):
        assert not is_uuid(bad)
        with pytest.raises(Invalid, match=r"^run id "):
            check_uuid("run", bad)


def test_a_very_long_name_is_cut_in_the_error():
    with pytest.raises(Invalid) as caught:
        check_name("plan", "/" * 100_000)
    assert len(caught.value.message) < 120
