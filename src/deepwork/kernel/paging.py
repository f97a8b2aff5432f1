"""Lists in pages: up to `limit` items, and a cursor that says where the next page begins."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

from deepwork.kernel.answers import Answer, Field
from deepwork.kernel.errors import InvalidInput

PageLimit = Annotated[int, Field(ge=1, le=500)]
Cursor = Annotated[str | None, Field(description="`cursor` from the previous page")]


class Page(Answer):
    """One page of a list: the total count, and the cursor of the next page, null on the last."""

    kept_nulls: ClassVar[frozenset[str]] = frozenset({"cursor"})

    total: int
    cursor: str | None = None


class Listed(Protocol):
    """A record of a list that has the newest first."""

    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> int: ...


Record = TypeVar("Record", bound=Listed)


def parse_position(cursor: str | None) -> tuple[int, str] | None:
    """Return the time and id of the last record before the page that this cursor names."""
    if cursor is None:
        return None
    created_at, id = decode_cursor(cursor, int, str)
    return created_at, id


def cut_page(found: Sequence[Record], limit: int) -> tuple[Sequence[Record], str | None]:
    """Split off the record that was read beyond the limit, if there is one; then there is a next page."""
    page = found[:limit]
    return page, encode_cursor([page[-1].created_at, page[-1].id]) if len(found) > limit else None


def encode_cursor(position: object) -> str:
    """Encode the position after a page as an opaque cursor."""
    text = json.dumps(position, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *types: type) -> Sequence[Any]:
    """Decode a cursor into values of exactly these types; raise InvalidInput otherwise."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        values = None
    is_ours = isinstance(values, list) and len(values) == len(types)
    if not is_ours or not all(type(value) is shape for value, shape in zip(values, types, strict=True)):
        raise InvalidInput(
            "`cursor` was not issued by this endpoint.", suggestion="Omit it to start from the beginning."
        )
    found: Sequence[Any] = values
    return found
