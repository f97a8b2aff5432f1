"""The JSON Schema of job.yml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepwork.files.json_schema import SchemaProblem, SchemaValidator

SCHEMA_FILE = Path(__file__).parent.with_name("job.schema.json")

SHAPE = SchemaValidator(SCHEMA_FILE)


def find_shape_problems(data: Any) -> Iterator[SchemaProblem]:
    """Find where a document violates the schema."""
    return SHAPE.find_problems(data)


def is_identifier(text: str) -> bool:
    """Whether the text is a valid name of a job, step or workflow."""
    return SHAPE.is_valid(text, "identifier")
