from __future__ import annotations

import re
from typing import Any

import pytest

from deepwork.kernel.answers import Answer, check_input
from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.values import CaseInsensitiveEnum, new_id


def build_nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "code", "named"),
    [
        ("a\0b", Code.INVALID_INPUT, "U+0000"),
        ("\ud800", Code.INVALID_INPUT, "U+D800"),
        ({"k\0": 1}, Code.INVALID_INPUT, "U+0000"),
        (["fine", "\udfff"], Code.INVALID_INPUT, "body[1]"),
        ("x" * (1024 * 1024 + 1), Code.TOO_LARGE, "1048577 bytes"),
        (["x"] * 10_001, Code.TOO_LARGE, "10001 items"),
        (build_nested(65), Code.INVALID_INPUT, "64 levels"),
        (2**53 + 1, Code.INVALID_INPUT, "2**53"),
        (float("nan"), Code.INVALID_INPUT, "nan"),
        (float("inf"), Code.INVALID_INPUT, "inf"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_by_name(value: Any, code: Code, named: str):
    with pytest.raises(InvalidInput) as refused:
        check_input({"body": value})

    assert refused.value.code is code
    assert "body" in refused.value.message
    assert named in refused.value.message


@pytest.mark.parametrize(
    "value", ["x" * 1024 * 1024, ["x"] * 10_000, build_nested(63), 2**53, -1.5, None, True, "\x1b[0m"]
)
def test_a_value_that_can_be_stored_passes(value: Any):
    check_input({"body": value})


def test_hostile_depth_causes_no_recursion():
    with pytest.raises(InvalidInput):
        check_input({"body": build_nested(100_000)})


def test_null_answer_fields_are_left_out_but_nulls_in_given_data_stay():
    class Thing(Answer):
        name: str | None = None
        metadata: dict[str, Any]

    assert Thing(metadata={"a": None}).model_dump(mode="json") == {"metadata": {"a": None}}


def test_an_id_is_short_and_unique():
    ids = {new_id("ag") for _ in range(1000)}

    assert len(ids) == 1000
    assert all(re.fullmatch(r"ag_[0-9a-z]{12}", id) for id in ids)


def test_an_enum_value_is_accepted_in_any_case_and_with_surrounding_spaces():
    class Colour(CaseInsensitiveEnum):
        RED = "red"

    assert Colour(" Red ") is Colour.RED
    with pytest.raises(ValueError, match="blue"):
        Colour("blue")
    with pytest.raises(ValueError, match="5"):
        Colour(5)  # type: ignore[arg-type]
