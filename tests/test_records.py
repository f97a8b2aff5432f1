"""Dataclasses that cost little to define, and their fast copies."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

import deepwork
from deepwork.kernel.records import _compile_init, dataclass
from deepwork.kernel.values import build_record, copy_with


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


def test_a_copy_equals_that_of_the_standard_library_and_leaves_the_original():
    point = Point(1, 2)

    moved = copy_with(point, x=3)

    assert moved == replace(point, x=3)
    assert point == Point(1, 2)
    with pytest.raises(FrozenInstanceError):
        moved.x = 4  # type: ignore[misc]


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="no field 'z'"):
        copy_with(Point(1), z=3)


def test_a_record_is_built_from_all_its_fields():
    assert build_record(Point, {"x": 1, "y": 2}) == Point(1, 2)


@dataclass(frozen=True, slots=True)
class Leg:
    begin: Point
    name: str = field(default="", compare=False)
    marks: list[str] = field(default_factory=list, repr=False, compare=False)


@dataclass(frozen=True)
class NamedPoint(Point):
    name: str = field(default="origin", kw_only=True)
    length: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", abs(self.x) + abs(self.y))


@dataclass
class Counter:
    value: int = 0


def test_objects_with_equal_fields_are_equal_and_have_one_hash():
    assert Point(1, 2) == Point(1, 2) != Point(2, 1)
    assert len({Point(1, 2), Point(1, 2), Leg(Point(1)), Leg(Point(1), "way")}) == 2
    assert Point(1, 2) != NamedPoint(1, 2)


def test_objects_that_can_change_have_no_hash():
    counter = Counter()

    counter.value += 1

    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_every_object_gets_its_own_default_list():
    assert Leg(Point(1)).marks is not Leg(Point(1)).marks


def test_frozen_objects_refuse_changes_and_can_be_copied():
    leg = Leg(Point(1), "way", ["a"])

    with pytest.raises(FrozenInstanceError):
        leg.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del leg.name
    for same in (copy.deepcopy(leg), pickle.loads(pickle.dumps(leg)), replace(leg)):
        assert (same, same.name, same.marks) == (leg, "way", ["a"])


def test_a_subclass_has_the_fields_of_its_parent_and_is_completed_after_creation():
    point = NamedPoint(3, -4, name="p")

    assert (point.length, repr(point)) == (7, "NamedPoint(x=3, y=-4, name='p', length=7)")


def test_an_unknown_or_missing_argument_is_refused():
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(1, z=2)  # type: ignore[call-arg]


def list_kinds() -> Iterator[type[Any]]:
    """List every dataclass of the program."""
    for found in pkgutil.walk_packages(deepwork.__path__, "deepwork."):
        if found.name == "deepwork.__main__":
            continue
        module = importlib.import_module(found.name)
        for kind in vars(module).values():
            if (
                isinstance(kind, type)
                and dataclasses.is_dataclass(kind)
                and kind.__module__ == module.__name__
            ):
                yield kind


def describe_parameters(method: Any) -> list[tuple[str, Any, bool]]:
    return [
        (each.name, each.kind, each.default is each.empty)
        for each in inspect.signature(method).parameters.values()
    ]


def test_the_constructor_of_every_dataclass_is_that_of_the_standard_library():
    kinds = list(list_kinds())

    assert len(kinds) > 300
    for kind in kinds:
        specs = [(each.name, Any, copy.copy(each)) for each in dataclasses.fields(kind)]
        standard = dataclasses.make_dataclass(kind.__name__, specs)
        assert describe_parameters(_compile_init(kind, frozen=True)) == describe_parameters(
            vars(standard)["__init__"]
        ), kind
