from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from deepwork.kernel.answers import Answer, IsoTime, build_model, read_answer
from deepwork.kernel.values import CaseInsensitiveEnum


class Color(CaseInsensitiveEnum):
    RED = "red"


class Part(Answer):
    """A part."""

    name: str
    note: str | None = None


class Whole(Part):
    kept_nulls = frozenset({"gone"})

    color: Color
    parts: list[Part]
    gone: int | None = None
    data: dict[str, Any]


class Timed(Part):
    since: IsoTime
    until: IsoTime | None = None
    size: int


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    since: int
    hidden: str = "x"
    until: int | None = None
    note: str | None = None

    @property
    def size(self) -> int:
        return len(self.name)


class Outer(BaseModel):
    whole: Whole


WHOLE = Whole(name="w", color=Color.RED, parts=[Part(name="p")], data={"a": None, "b": (1, Color.RED)})
JSON = {
    "name": "w",
    "color": "red",
    "parts": [{"name": "p"}],
    "gone": None,
    "data": {"a": None, "b": [1, "red"]},
}


def test_an_answer_becomes_json_in_the_order_of_its_fields():
    dumped = WHOLE.model_dump()

    assert dumped == JSON
    assert list(dumped) == ["name", "color", "parts", "gone", "data"]
    assert type(dumped["color"]) is str


def test_an_answer_takes_what_it_shows_of_a_record():
    record = Record("box", since=1_800_000_000_000)

    shown = Timed.of(record, note="mine").model_dump()

    assert shown == {"name": "box", "note": "mine", "since": "2027-01-15T08:00:00.000Z", "size": 3}
    with pytest.raises(TypeError, match="size"):
        Timed.of(Part(name="p"), since="now")


def test_an_answer_is_frozen_and_a_copy_can_differ():
    with pytest.raises(AttributeError, match="frozen"):
        WHOLE.name = "x"  # type: ignore[misc]

    assert WHOLE.model_copy(update={"name": "x"}) == Whole(**vars(WHOLE) | {"name": "x"})
    assert WHOLE.model_copy(update={"name": "x"}) != WHOLE


def test_a_missing_field_is_an_error_and_others_are_ignored():
    with pytest.raises(TypeError, match="Part: missing: name"):
        Part()  # type: ignore[call-arg]

    row: Any = {"name": "p", "unknown": 1}
    assert Part(**row) == Part(name="p")


def test_a_value_that_is_not_json_is_an_error():
    with pytest.raises(AttributeError):
        Part(name=Decimal(1)).model_dump()  # type: ignore[arg-type]


def test_an_answer_is_read_back_from_its_json():
    assert read_answer(Whole, JSON).parts == [Part(name="p")]


def test_pydantic_describes_and_serialises_answers():
    schema = build_model(Whole).model_json_schema()

    assert schema["required"] == ["name", "color", "parts", "data"]
    assert schema["$defs"]["Part"]["description"] == "A part."
    assert Outer(whole=WHOLE).model_dump(mode="json") == {"whole": JSON}
    assert Outer.model_validate({"whole": JSON}).whole.name == "w"
