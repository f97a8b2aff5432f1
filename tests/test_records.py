"""Fast copies of frozen dataclasses."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

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
