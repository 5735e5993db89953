"""What a config declares, how inputs are typed, and what of them makes a run necessary."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config import Input, Output, PlanFile, Statement, check, check_body, check_given, effective, triggering, typed
from appliance.errors import Invalid


def statement(*inputs, outputs=(), body="#!/bin/sh\n", group="script", **more):
    return Statement("c", group, body, None, inputs, tuple(outputs), **more)


#   type                 given              -> typed
COERCED = [
    ("String",             "x",               "x"),
    ("String",             "",                ""),
    ("String",             5,                 "5"),
    ("String",             True,              "true"),
    ("String",             {"a": "é"},        '{"a": "é"}'),
    ("Number",             5,                 5),
    ("Number",             "5",               5),
    ("Number",             "-5.5",            -5.5),
    ("Boolean",            True,              True),
    ("Boolean",            "Yes",             True),
    ("Boolean",            "off",             False),
    ("Boolean",            0,                 False),
    ("CommaDelimitedList", ["a", 1],          ["a", "1"]),
    ("CommaDelimitedList", "a, b,",           ["a", "b", ""]),
    ("CommaDelimitedList", "",                []),
    ("Json",               {"a": [1]},        {"a": [1]}),
    ("Json",               '{"a": [1]}',      {"a": [1]}),
    ("Json",               "[1, 2]",          [1, 2]),
    ("Number",             None,              None),
]  # fmt: skip


@pytest.mark.parametrize("type, value, expected", COERCED)
def test_values_are_typed_as_declared(type, value, expected):
    found = typed(Input("x", type), value)
    assert found == expected
    assert (found is expected) if isinstance(expected, bool) else True


@pytest.mark.parametrize(
    "type, value",
    [
        ("Number", "five"),
        ("Number", True),
        ("Number", [1]),
        ("Number", "nan"),
        ("Number", "inf"),
        ("Number", "1e999"),
        ("Boolean", "maybe"),
        ("Boolean", 2),
        ("CommaDelimitedList", {"a": 1}),
        ("Json", "{"),
        ("Json", "5"),
        ("Json", 5),
    ],
)
def test_a_value_of_another_type_is_refused_naming_the_input_and_not_showing_a_secret(type, value):
    with pytest.raises(Invalid, match="'x'"):
        typed(Input("x", type), value)
    with pytest.raises(Invalid) as caught:
        typed(Input("x", type), value, secret=True)
    assert repr(value) not in caught.value.message


@given(st.sampled_from(["String", "Number", "Boolean", "CommaDelimitedList", "Json"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6,
))  # fmt: skip
def test_what_is_typed_once_stays_what_it_is_and_can_be_written_as_json(type, value):
    try:
        once = typed(Input("x", type), value)
    except Invalid:
        return
    assert typed(Input("x", type), once) == once
    assert msgspec.json.decode(msgspec.json.encode(once)) == once


# ---------------------------------------------------------------------------------------------------- given values


def test_sem_31_required_inputs_are_all_named():
    with pytest.raises(Invalid, match="a, c"):
        check_given(statement(Input("a"), Input("b", default="x"), Input("c")), {}, {})


@pytest.mark.parametrize(
    "plain, secret, words",
    [
        ({"zz": "x"}, {}, "no input 'zz'"),
        ({}, {"zz": "x"}, "no input 'zz'"),
        ({"a": "x"}, {"a": "y"}, "both plain and secret"),
        ({"deploy_action": "x"}, {}, "set by the appliance"),
        ({"a b": "x"}, {}, "not allowed"),
        ({"a": "x\0y"}, {}, "NUL"),
        ({}, {"a": "x\0y"}, "NUL"),
        ({"a": "x" * (1 << 20)}, {}, "over the limit"),
        ({"a": "x"}, {"deployment_run_policy": "once"}, "cannot be a secret"),
    ],
)
def test_values_that_cannot_be_are_refused(plain, secret, words):
    with pytest.raises(Invalid, match=words):
        check_given(statement(Input("a", default="")), plain, secret)


def test_a_config_that_declares_nothing_takes_any_and_one_that_declares_takes_those_and_the_policy():
    assert check_given(statement(), {"x": 5}, {"y": [1]}) == ({"x": 5}, {"y": [1]})
    assert check_given(statement(Input("n", "Number")), {"n": "5", "deployment_run_policy": "once"}, {}) == (
        {"n": 5, "deployment_run_policy": "once"},
        {},
    )
    assert check_given(statement(Input("n", "Number")), {}, {"n": "5"}) == ({}, {"n": 5})


def test_defaults_and_values_of_the_declaration_are_what_is_not_given():
    one = statement(Input("a", "Number", default="5"), Input("b", "Json", value='{"x": 1}'), Input("c", default=None), Input("d"))
    assert effective(one, {"d": "x"}) == {"a": 5, "b": {"x": 1}, "c": None, "d": "x"}
    assert effective(one, {"a": 6, "d": "x"})["a"] == 6


def test_what_triggers_is_neither_flagged_nor_the_appliances_own():
    one = statement(Input("a"), Input("quiet", triggers=False))
    values = {"a": "1", "quiet": "2", "deploy_x": "3", "deployment_run_policy": "once", "other": "4"}
    assert triggering(one, values) == {"a": "1", "other": "4"}


# ---------------------------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    "body, words",
    [
        ("", "empty"),
        (None, "empty"),
        ({"a": 1}, "not text"),
        ("echo\n", "line 1 .* not a '#!' line: 'echo'"),
        ("#!/bin/sh\r\necho\r\n", "CR LF: '#!/bin/sh.r'"),
        ("#!/bin/sh\n\0", "NUL"),
        ("\ufeff#!/bin/sh\n", "not a '#!' line"),
        (" #!/bin/sh\n", "not a '#!' line"),
    ],
)
def test_a_script_that_no_machine_can_start_is_refused_quoting_line_1(body, words):
    with pytest.raises(Invalid, match=words):
        check_body("script", body, "the config")


def test_other_hooks_take_any_body():
    for body in ("", None, {"a": 1}, "no script", [1]):
        check_body("ansible", body, "the config")
        check_body(None, body, "the config")


@pytest.mark.parametrize(
    "wrong, words",
    [
        (statement(Input("a"), Input("a")), "declared twice"),
        (statement(outputs=[Output("x"), Output("x")]), "declared twice"),
        (statement(Input("a", "Number", default="x")), "'a'"),
        (statement(Input("a", "Number", value="x")), "'a'"),
        (statement(Input("a/b")), "not allowed"),
        (statement(outputs=[Output("../x")]), "not allowed"),
        (statement(group="../x"), "not allowed"),
        (statement(body="#!/bin/sh\n" + "x" * (1 << 20)), "over the limit"),
    ],
)
def test_a_statement_that_could_never_run_is_refused(wrong, words):
    with pytest.raises(Invalid, match=words):
        check(wrong)


def test_a_statement_about_a_plan_file_needs_no_body():
    check(Statement("c", "script", None, PlanFile("lab", "a.sh")))
