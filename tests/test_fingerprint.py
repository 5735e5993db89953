"""What makes a run necessary, and what of it changed."""

import pytest

from appliance.config import Input, PlanFile, Statement
from appliance.fingerprint import body_digest, changed_parts, describe, parts_of, whole
from appliance.keys import Key
from appliance.plan import digest_of

KEY = Key("k", b"1" * 32, b"2" * 32)
BASE = Statement("c", "script", "#!/bin/sh\n", None, options={"a": 1, "b": 2})


def fingerprint(statement=BASE, values=None, key=KEY, body=None):
    return whole(key, parts_of(key, statement, body or body_digest(statement.body), values or {}))


def test_equal_statements_have_equal_fingerprints_whatever_the_order_of_their_keys():
    assert fingerprint(values={"a": {"x": 1, "y": 2}, "b": 1}) == fingerprint(values={"b": 1, "a": {"y": 2, "x": 1}})
    assert fingerprint() == fingerprint(Statement("other name", "script", "#!/bin/sh\n", None, options={"b": 2, "a": 1}))


@pytest.mark.parametrize(
    "other",
    [
        fingerprint(Statement("c", "ansible", "#!/bin/sh\n", None, options={"a": 1, "b": 2})),
        fingerprint(Statement("c", "script", "#!/bin/sh\n\n", None, options={"a": 1, "b": 2})),
        fingerprint(Statement("c", "script", "#!/bin/sh\n", None, options={"a": 1})),
        fingerprint(values={"x": ""}),
        fingerprint(values={"x": None}),
        fingerprint(key=Key("k", b"3" * 32, b"2" * 32)),
    ],
)
def test_each_part_counts(other):
    assert fingerprint() != other


def test_a_script_that_moves_into_a_plan_is_the_same_script():
    text = "#!/bin/sh\necho é\n"
    assert body_digest(text) == digest_of(text.encode())
    moved = Statement("c", "script", None, PlanFile("lab", "a"), options={"a": 1, "b": 2})
    assert fingerprint(moved, body=digest_of(b"#!/bin/sh\n")) == fingerprint()


def test_an_object_is_not_the_text_that_spells_it():
    assert body_digest({"a": 1}) != body_digest('{"a":1}')
    assert body_digest({"a": 1, "b": 2}) == body_digest({"b": 2, "a": 1})


def test_values_of_different_types_differ():
    assert len({fingerprint(values={"x": value}) for value in (1, "1", True, "true", [1], None, "")}) == 7


def test_parts_name_what_changed_and_hold_no_value():
    before = parts_of(KEY, BASE, body_digest("a"), {"who": "s3cret", "gone": 1})
    after = parts_of(KEY, BASE, body_digest("b"), {"who": "other", "new": 1})
    assert changed_parts(before, after) == ["body", "input:gone", "input:new", "input:who"]
    assert "s3cret" not in str(before)
    assert describe({"body": "1", "input:a": "1", "input:who": "1"}, {"body": "2", "input:b": "1", "input:who": "2"}, BASE) == (
        "script changed, input a removed, input b added, input who changed"
    )
    plan = Statement("c", "script", None, PlanFile("lab", "bin/a"), (Input("x"),))
    assert describe({"body": "1"}, {"body": "2"}, plan) == "file lab:bin/a changed"
    assert describe({"body": "1"}, {"body": "2"}, Statement("c", "ansible", {}, None)) == "body changed"
