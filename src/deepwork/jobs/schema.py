"""The shape of a job.yml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepwork.files.shape import Problem, Shape

SCHEMA_FILE = Path(__file__).with_name("job.schema.json")

SHAPE = Shape(SCHEMA_FILE)


def shape_problems(data: Any) -> Iterator[Problem]:
    """Where a document departs from the schema."""
    return SHAPE.problems(data)


def is_identifier(text: str) -> bool:
    """Whether a job, a step or a workflow may be called so."""
    return SHAPE.fits(text, "identifier")
