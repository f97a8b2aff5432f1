"""JSON by the fastest library that is installed: of answers and messages, and of what the store holds.

Objects that are no JSON values, such as answers, are encoded by their fields in one pass, without being
converted first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from json.encoder import JSONEncoder
from typing import Any, NamedTuple


class Codec(NamedTuple):
    """A library for JSON."""

    encode: Callable[[Any], str]
    decode: Callable[[str], Any]


def describe_value(value: Any) -> Any:
    """Return what is encoded in the place of a value that is no JSON value; its parts may be such again."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):  # with names, which orjson does not take for a list
        return list(value)
    fields = getattr(value, "to_fields", None)
    return value.model_dump(mode="json") if fields is None else fields()


STANDARD = Codec(
    JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=describe_value).encode, json.loads
)
_codec = STANDARD


def encode(value: Any) -> str:
    """Encode a value compactly."""
    return _codec.encode(value)


def decode(text: str) -> Any:
    """Decode JSON that we stored, whose integers have 64 bits at most."""
    return _codec.decode(text)


def load_fastest() -> None:
    """Use orjson from now on, if it is installed.

    It takes a fifth of the time or less, but milliseconds to import, for which no start should wait.
    """
    global _codec  # noqa: PLW0603 - there is one for the process
    _codec = find_fastest()


def find_fastest() -> Codec:
    """Return the fastest library that is installed."""
    try:
        import orjson  # noqa: PLC0415 - see `load_fastest`
    except ImportError:  # no wheel for this platform
        return STANDARD
    dump, load, refuses = orjson.dumps, orjson.loads, orjson.JSONEncodeError
    # What we did not mean to send must not be sent, only because orjson knows its type.
    options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME

    def encode_fast(value: Any) -> str:
        try:
            return dump(value, describe_value, options).decode()
        except refuses:  # an integer of over 64 bits, a lone surrogate, a key that is no string, or an error
            return STANDARD.encode(value)

    def decode_fast(text: str) -> Any:
        try:
            return load(text)
        except ValueError:  # invalid, or an escaped lone surrogate
            return STANDARD.decode(text)

    return Codec(encode_fast, decode_fast)
