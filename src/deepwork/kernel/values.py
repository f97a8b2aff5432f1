"""Values that everything uses: names, ids, times, JSON, fast copies of records, things found on demand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cached_property, lru_cache
from json.encoder import JSONEncoder
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from deepwork.kernel.errors import InvalidInput

Record = TypeVar("Record")
Member = TypeVar("Member", bound=Enum)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def build_record(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """Build a frozen dataclass from all its fields, several times as fast as its constructor.

    Only for values that are complete by construction, such as the row of a query that names every field.
    """
    record = object.__new__(kind)
    record.__dict__.update(values)
    return record


def copy_with(record: Record, /, **changes: Any) -> Record:
    """Return a copy of a frozen dataclass with these changes; `replace` takes ten times as long."""
    fields = record.__dict__
    if not fields.keys() >= changes.keys():
        raise TypeError(f"{type(record).__name__} has no field {min(changes.keys() - fields.keys())!r}.")
    copy = object.__new__(type(record))
    copy.__dict__.update(fields, **changes)
    return copy


def index_members(kind: type[Member]) -> dict[str, Member]:
    """Return the members of an enum by value: looking one up takes a tenth of a call of the class."""
    return {member.value: member for member in kind}


class FoundOnFirstUse(Generic[Arguments, Result]):
    """A function that is found when it is first called: what it needs is imported and built only then."""

    def __init__(self, find: Callable[[], Callable[Arguments, Result]]) -> None:
        self._find = find

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._function(*args, **kwargs)

    @cached_property
    def _function(self) -> Callable[Arguments, Result]:
        return self._find()


class CaseInsensitiveEnum(StrEnum):
    """An enum of lower-case words; accepts any case and always returns lower case."""

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        if not isinstance(value, str):
            return None
        return cls._value2member_map_.get(value.strip().lower())  # type: ignore[return-value]


def new_id(prefix: str) -> str:
    """Return a new id such as `ag_3k9x0q2m7b1z`: 62 random bits, short because ids cost agents tokens."""
    return f"{prefix}_{encode_letters(os.urandom(12))}"


def new_ids(prefix: str, count: int) -> list[str]:
    """Return new ids, many times as fast as one by one."""
    letters = os.urandom(12 * count).translate(_LETTER_TABLE).decode()
    return [f"{prefix}_{letters[start : start + 12]}" for start in range(0, 12 * count, 12)]


def encode_letters(noise: bytes) -> str:
    """Encode the first twelve bytes, random or from a hash, as letters and digits."""
    return noise[:12].translate(_LETTER_TABLE).decode()


_LETTER_TABLE = (b"0123456789abcdefghijklmnopqrstuvwxyz" * 8)[:256]


def format_optional_timestamp(milliseconds: int | None) -> str | None:
    """Format Unix milliseconds as ISO 8601; None stays None.

    It caches the minute, which is five times as fast as `isoformat` for timestamps that lie close together,
    as in the tasks of a run.
    """
    if milliseconds is None:
        return None
    minute, rest = divmod(milliseconds, 60_000)
    second, fraction = divmod(rest, 1000)
    return _format_minute(minute) + _SECOND_TEXTS[second] + _MILLISECOND_TEXTS[fraction]


_SECOND_TEXTS = tuple(f"{second:02d}." for second in range(60))
_MILLISECOND_TEXTS = tuple(f"{fraction:03d}Z" for fraction in range(1000))


def format_timestamp(milliseconds: int) -> str:
    """Format Unix milliseconds as ISO 8601."""
    return format_optional_timestamp(milliseconds) or ""


def parse_timestamp(text: str, name: str) -> int:
    """Parse ISO 8601 into Unix milliseconds, as UTC if it has no time zone. `name` is for the error."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"`{name}`: {text[:60]!r} is not an ISO 8601 time.") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def measure_duration(began: int, ended: int) -> int:
    """Return the time between two moments; 0 if the clock was set back in between."""
    return max(0, ended - began)


def format_age(then: int, now: int) -> str:
    """Describe how long ago a moment was, for text that a model or a person reads; both in milliseconds."""
    seconds = measure_duration(then, now) // 1000
    for unit, length in _UNITS:
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60))


@lru_cache(maxsize=4096)
def _format_minute(number: int) -> str:
    return datetime.fromtimestamp(number * 60, UTC).strftime("%Y-%m-%dT%H:%M:")


# JSON by the fastest library that is installed: of answers and messages, and of what the store holds.
# Objects that are no JSON values, such as answers, are encoded by their fields in one pass.


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
