"""What an address is that can be read: what it takes, what it gives, and where a list goes on."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_serializer
from pydantic_core.core_schema import SerializerFunctionWrapHandler
from starlette.convertors import Convertor, register_url_convertor

from deepwork.agents.presence import Presence
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput
from deepwork.shapes import Answer


class Nothing(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class Page(Nothing):
    """Which part of a list: so many after the cursor that the page before ended with."""

    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(default=None, description="`cursor` of the page before")


class Listing(Answer):
    """A part of a list: how many there are in all, and where the rest begins; null at the end."""

    total: int
    cursor: str | None = None

    @model_serializer(mode="wrap")
    def _without_nulls(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None or key == "cursor"}


@dataclass(frozen=True)
class Sight:
    """What a reading has before it: one unchanging view of the store, and what the address names."""

    tx: Transaction
    presence: Presence
    path: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.path["id"]

    @cached_property
    def now(self) -> int:
        return self.tx.now


@dataclass(frozen=True)
class Endpoint:
    """One address that can be read."""

    path: str
    summary: str
    query: type[BaseModel]
    answer: type[BaseModel]
    read: Callable[[Sight, Any], BaseModel | Mapping[str, Any]]
    """What is large is given as plain values; `answer` then only describes it."""
    follows_events: bool = False
    """Whether nothing but an event changes the answer: not time that passes, nor what is stored untold."""

    @property
    def pattern(self) -> str:
        """The address as the router takes it; the id of a job's step has a slash in it."""
        return self.path.replace("tasks/{id}", "tasks/{id:path}")


@dataclass(frozen=True)
class ToolEndpoint:
    """One address that gives what a tool answers which changes nothing."""

    path: str
    summary: str
    query: type[BaseModel]
    tool: str
    arguments: Callable[[Mapping[str, str], Any], dict[str, Any]]

    @property
    def pattern(self) -> str:
        return self.path.replace("tasks/{id}", "tasks/{id:task}")


class _TaskId(Convertor[str]):
    """The id of a task where more follows it: a session alone has no more, so that `diff` may be a step."""

    regex = "t[kt]_[^/]+|[^/]+/[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("task", _TaskId())


def marked(place: object) -> str:
    """Where a list goes on, as a caller carries it: nothing to be read or made by hand."""
    text = json.dumps(place, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str, *shapes: type) -> Sequence[Any]:
    """The values in a cursor, which must be of these types."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        values = None
    is_ours = isinstance(values, list) and len(values) == len(shapes)
    if not is_ours or not all(type(value) is shape for value, shape in zip(values, shapes, strict=True)):
        raise InvalidInput(
            "`cursor` is not one that this address answered.", suggestion="Leave it out to begin anew."
        )
    found: Sequence[Any] = values
    return found
