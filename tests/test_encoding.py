"""All encoders write the same JSON, whatever an answer contains."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepwork
from deepwork.kernel.answers import Answer
from deepwork.kernel.values import STANDARD, CaseInsensitiveEnum, find_fastest

ENCODERS = [
    pytest.param(STANDARD.encode, id="standard library"),
    pytest.param(find_fastest().encode, id="fastest"),
]


class Color(CaseInsensitiveEnum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: Any
    right: Any


class Leaf(Answer):
    name: Any
    note: Any = None


class Tree(Leaf):
    kept_nulls = frozenset({"gone"})

    gone: Any = None
    parts: Any


@dataclass(frozen=True)
class Row:
    secret: str


texts = st.text(st.characters(exclude_categories=()), max_size=20)  # also lone surrogates
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(Color)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(texts | st.sampled_from(Color) | st.integers(), inner, max_size=4)
        | st.builds(Leaf, name=inner, note=inner)
        | st.builds(Tree, name=inner, gone=inner, parts=inner)
    ),
    max_leaves=15,
)


@cache
def import_all_answers() -> list[type[Answer]]:
    """Import every module that may define answers, and return the classes of those that may hold answers."""
    for module in pkgutil.walk_packages(deepwork.__path__, "deepwork."):
        if module.name.rpartition(".")[2] != "__main__":
            importlib.import_module(module.name)
    found = [kind for kind in walk_subclasses(Answer) if kind.model_dump is Answer.model_dump]
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def walk_subclasses(kind: type[Answer]) -> Iterator[type[Answer]]:
    for each in kind.__subclasses__():
        yield each
        yield from walk_subclasses(each)


def show(value: Any) -> str:
    """Show a value with the types of its parts and the order of its keys."""
    return repr(json.loads(value))


@given(values)
def test_the_fastest_encoder_writes_what_the_standard_library_does(value: Any):
    assert show(find_fastest().encode(value)) == show(STANDARD.encode(value))


@given(values, st.data())
def test_an_answer_of_any_kind_is_written_as_its_converted_values(value: Any, data: st.DataObject):
    kind = data.draw(st.sampled_from(import_all_answers()))
    answer = kind(**{name: data.draw(st.just(value) | st.none()) for name in kind.model_fields})

    for codec in (STANDARD, find_fastest()):
        assert show(codec.encode(answer)) == show(json.dumps(answer.model_dump()))


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    "value", [Decimal(1), Row("secret"), datetime.now(UTC), {"rows": [Row("secret")]}, {1, 2}, b"bytes"]
)
def test_what_is_no_answer_is_never_written(encode: Any, value: Any):
    with pytest.raises(AttributeError):
        encode(value)


@pytest.mark.parametrize("encode", ENCODERS)
def test_json_is_compact_and_keeps_letters(encode: Any):
    assert encode({"name": "Zoë\n", "parts": [1, None]}) == '{"name":"Zoë\\n","parts":[1,null]}'


stored = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)


@given(stored)
def test_what_the_store_holds_is_decoded_exactly(value: Any):
    assert repr(find_fastest().decode(json.dumps(value))) == repr(value)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nul", "'a'", '"\\x"', "1 2"])
def test_what_is_not_json_is_an_error_for_every_decoder(text: str):
    for codec in (STANDARD, find_fastest()):
        with pytest.raises(ValueError, match=r".+"):
            codec.decode(text)


def test_the_fastest_is_orjson_where_it_is_installed():
    pytest.importorskip("orjson")

    assert find_fastest() is not STANDARD
