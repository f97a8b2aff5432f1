"""What tools take and answer: types of parameters, and the base of all answers.

Does not import pydantic: a server starts several times faster without it, and most calls do not need it.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
)

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.values import format_timestamp

if TYPE_CHECKING:
    from pydantic import BaseModel

Kind = TypeVar("Kind", bound="Answer")
_REQUIRED: Any = object()

IsoTime = str
"""A time in an answer: ISO 8601 in UTC. `Answer.of` formats the Unix milliseconds that a record has."""


class _CopyPlan(NamedTuple):
    """How fields are copied from records of one type."""

    names: list[str]
    get_values: Callable[[Any], Iterable[Any]]
    times: list[str]
    is_complete: bool
    """Whether the copied and the other fields are all that an answer needs, and no more."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Answer:
    """Base class of tool answers; serialised without null values.

    A subclass declares its fields as a dataclass does. It is not a pydantic model: importing and building
    those takes most of the time of a first call. Answers are built by our own code, so they are not
    validated; tests compare them with their schemas.
    """

    model_fields: ClassVar[Mapping[str, Any]] = {}
    """The default of each field by name."""
    kept_nulls: ClassVar[frozenset[str]] = frozenset()
    """Fields that appear in the answer even if their value is null."""
    _blank: ClassVar[dict[str, Any]] = {}
    """All fields in their order, with their defaults; those without one are `_REQUIRED`."""
    _required: ClassVar[frozenset[str]] = frozenset()
    _times: ClassVar[frozenset[str]] = frozenset()
    _plans: ClassVar[dict[tuple[Any, ...], _CopyPlan]] = {}
    """How `of` copies, by the type of record and the names of the other fields."""

    def __init_subclass__(cls) -> None:
        kinds = inspect.get_annotations(cls)
        own = {
            name: cls.__dict__.get(name, _REQUIRED)
            for name, kind in kinds.items()
            if not kind.startswith("ClassVar")
        }
        cls._times |= {name for name, kind in kinds.items() if kind.startswith("IsoTime")}
        cls.model_fields = cls._blank = {**cls.model_fields, **own}
        cls._required = frozenset(name for name, value in cls._blank.items() if value is _REQUIRED)
        cls._plans = {}

    def __init__(self, **values: Any) -> None:
        """Take values by name; others are ignored, so that all values of a row or model can be passed."""
        fields = self._blank | values
        if len(fields) != len(self._blank):
            fields = {name: fields[name] for name in self._blank}
        if not self._required <= values.keys():
            missing = ", ".join(self._required - values.keys())
            raise TypeError(f"{type(self).__name__}: missing: {missing}")
        self.__dict__.update(fields)

    @classmethod
    def of(cls, record: object, **others: Any) -> Self:
        """Build the answer from the attributes of a record that have the names of its fields.

        `others` are the fields that the record does not have, or that the answer shows differently.
        """
        key = (type(record), *others)
        plan = cls._plans.get(key) or cls._plans.setdefault(key, cls._plan_copy(record, others))
        found = dict(zip(plan.names, plan.get_values(record), strict=True))
        for name in plan.times:
            if type(found[name]) is int:
                found[name] = format_timestamp(found[name])
        if not plan.is_complete:
            return cls(**found | others)
        answer = object.__new__(cls)
        answer.__dict__.update(cls._blank | found | others)
        return answer

    @classmethod
    def _plan_copy(cls, record: object, others: Mapping[str, Any]) -> _CopyPlan:
        names = [name for name in cls._blank if name not in others and hasattr(record, name)]
        get_values: Callable[[Any], Iterable[Any]] = (
            attrgetter(*names) if len(names) > 1 else lambda record: [getattr(record, name) for name in names]
        )
        is_complete = cls._required <= {*names, *others} and others.keys() <= cls._blank.keys()
        return _CopyPlan(names, get_values, [name for name in names if name in cls._times], is_complete)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use model_copy to change {name!r}.")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def model_dump(self, mode: str = "json") -> dict[str, Any]:  # noqa: ARG002 - there is one mode
        """Convert to JSON values, in the order in which the fields are declared."""
        return {name: to_json_value(value) for name, value in self.to_fields().items()}

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that the answer shows, in the order in which they are declared."""
        kept = self.kept_nulls
        return {name: value for name, value in self.__dict__.items() if value is not None or name in kept}

    def model_copy(self, update: Mapping[str, Any]) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**self.__dict__, **update})

    def revise(self, outcome: ActionOutcome) -> Self:  # noqa: ARG002 - used by overriding methods
        """Return the answer as it is after this outcome of an action that ran after the commit.

        An answer overrides this for the types of outcome that concern it, and ignores all others.
        """
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Callable[[Any], Any]) -> Any:
        """Describe the answer where it is a field of a pydantic model."""
        from pydantic_core import core_schema

        def validate(value: Any, validate_fields: Callable[[Any], Any]) -> Answer:
            return value if isinstance(value, cls) else cls(**dict(validate_fields(value)))

        return core_schema.no_info_wrap_validator_function(
            validate,
            handler(build_model(cls)),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.model_dump),
        )


class Done(Answer):
    """Success, with no further data."""

    success: bool = True


def to_json_value(value: Any) -> Any:
    """Convert an answer, or a part of one, to JSON values."""
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if isinstance(value, dict):
        return {str(key): to_json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value.model_dump(mode="json")


_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})


def _is_plain(value: Any) -> bool:
    parts = value if type(value) is list else [value]
    return all(type(part) in _PLAIN_TYPES for part in parts)


def build_model(answer: type[Answer]) -> type[BaseModel]:
    """Return a pydantic model with the fields of an answer, for its JSON schema."""
    from pydantic import create_model

    if answer not in _models:
        hints = typing.get_type_hints(answer, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if default is _REQUIRED else default)
            for name, default in answer.model_fields.items()
        }
        about: dict[str, Any] = {"__doc__": answer.__doc__, "__module__": answer.__module__}
        _models[answer] = create_model(answer.__name__, **about, **fields)
    return _models[answer]


_models: dict[type[Answer], type[BaseModel]] = {}


def read_answer(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """Read an answer back from its JSON values."""
    if all(_is_plain(value) for value in values.values()):
        return kind(**values)  # no model needs to be built, and pydantic need not be imported
    from pydantic import TypeAdapter

    found: Kind = TypeAdapter(kind).validate_python(values)
    return found


MAX_NAME = 200
MAX_TEXT = 1024 * 1024
MAX_LIST = 10_000
MAX_DEPTH = 64
_SHORT = 4096
_MAX_LIST_BY_PATH = {"plan.tasks": 20_000, "template.tasks": 20_000, "tasks": 20_000}
MAX_INTEGER = 2**53


class Field:
    """Limits and description of a parameter, for `Annotated`.

    Takes the same arguments as pydantic's `Field`, and pydantic understands it.
    """

    __slots__ = ("_description", "_limits")

    def __init__(self, *, description: str = "", **limits: int) -> None:
        self._description, self._limits = description, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return self._add_limits(handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> Any:
        described = {"description": self._description} if self._description else {}
        return {**handler(schema), **described}

    def _add_limits(self, schema: dict[str, Any]) -> dict[str, Any]:
        if schema["type"] == "nullable":
            return {**schema, "schema": self._add_limits(schema["schema"])}
        return {**schema, **self._limits}


Name = Annotated[str, Field(strip_whitespace=True, min_length=1, max_length=MAX_NAME)]
Id = Annotated[str, Field(strip_whitespace=True, min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Field(min_length=1)]
Limit200 = Annotated[int, Field(ge=1, le=200)]
Limit1000 = Annotated[int, Field(ge=1, le=1000)]


def check_object(name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return a caller-defined object if its JSON is at most MAX_TEXT bytes; raises otherwise."""
    if (size := len(json.dumps(value, ensure_ascii=False).encode())) > MAX_TEXT:
        raise _build_too_large_error(name, f"{size} bytes", f"{MAX_TEXT} bytes")
    return value


UNCHANGED: Final[Any] = type("Unchanged", (), {"__repr__": lambda _: "UNCHANGED"})()
"""Default of a parameter for which null is a value: leaving it out keeps the current value."""


def check_input(arguments: dict[str, Any]) -> None:
    """Reject arguments that cannot be stored: too large, too deeply nested, or invalid text.

    Runs before every tool, so that both databases receive the same values.
    """
    _check_ids(arguments)
    if _are_short(arguments) or _is_obviously_valid(arguments):
        return
    for path, value, depth in _walk_values(arguments):
        if depth > MAX_DEPTH:
            raise InvalidInput(f"`{_get_first_part(path)}` is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, str):
            _check_text(path, value)
        elif isinstance(value, list) and len(value) > (most := _MAX_LIST_BY_PATH.get(path, MAX_LIST)):
            raise _build_too_large_error(path, f"{len(value)} items", f"{most} items")
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise InvalidInput(f"`{path}` is outside ±2**53, the range in which JSON numbers are exact.")
        elif isinstance(value, float) and value - value != 0:
            raise InvalidInput(f"`{path}` is {value}, which is not a JSON number.")


def is_id_parameter(name: str) -> bool:
    return name == "id" or name.endswith(("_id", "_ids"))


def _check_ids(arguments: dict[str, Any]) -> None:
    """Reject ids that are too long to be any; some are parts of file names."""
    for name in filter(is_id_parameter, arguments):
        given = arguments[name]
        for id in given if type(given) is list else (given,):
            if type(id) is str and len(id) > MAX_NAME:
                raise InvalidInput(
                    f"`{name}` has {len(id)} characters; an id has at most {MAX_NAME}.",
                    suggestion="Pass the id as an earlier answer showed it.",
                )


def _are_short(arguments: dict[str, Any]) -> bool:
    """Fast path for most calls: a few short ASCII strings, numbers and flags; False if in doubt."""
    texts = [*arguments]
    for value in arguments.values():
        if type(value) is str:
            texts.append(value)
        elif not _is_valid_scalar(value):
            return False
    joined = "".join(texts)
    return len(joined) <= _SHORT and joined.isascii() and "\0" not in joined


def _is_obviously_valid(arguments: dict[str, Any]) -> bool:
    """Fast path: check a large plan level by level instead of value by value; False if in doubt."""
    level: list[Any] = [arguments]
    for _ in range(MAX_DEPTH + 1):
        mappings = [value for value in level if type(value) is dict]
        lists = [value for value in level if type(value) is list]
        texts = [value for value in level if type(value) is str]
        others = [value for value in level if type(value) not in (dict, list, str)]
        if max(map(len, lists), default=0) > MAX_LIST or not (
            _are_valid_texts(texts) and all(map(_is_valid_scalar, others))
        ):
            return False
        level = [*chain(*mappings), *chain(*map(dict.values, mappings)), *chain(*lists)]
        if not level:
            return True
    return False


def _are_valid_texts(texts: list[str]) -> bool:
    joined = "".join(texts)
    fits = max(map(len, texts), default=0) * 4 <= MAX_TEXT
    return fits and "\0" not in joined and (joined.isascii() or _is_unicode(joined))


def _is_valid_scalar(value: Any) -> bool:
    if type(value) is int:
        return abs(value) <= MAX_INTEGER
    return value is None or type(value) is bool


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_text(path: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _build_unstorable_error(path, text[error.start]) from None
    if "\0" in text:
        raise _build_unstorable_error(path, "\0")
    if size > MAX_TEXT:
        raise _build_too_large_error(path, f"{size} bytes", f"{MAX_TEXT} bytes")


def _build_unstorable_error(path: str, character: str) -> InvalidInput:
    return InvalidInput(
        f"`{path}` contains the character U+{ord(character):04X}, which cannot be stored.",
        suggestion="Remove NUL characters and lone surrogates, then call again.",
    )


def _build_too_large_error(path: str, size: str, cap: str) -> InvalidInput:
    return InvalidInput(
        f"`{path}` has {size}; at most {cap} are accepted.",
        code=Code.TOO_LARGE,
        suggestion="Send less, or write it to a file and send the path.",
    )


def _walk_values(arguments: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield every value with its path and depth; keys count as values, because they are stored too."""
    waiting: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in arguments.items()]
    while waiting:
        path, value, depth = waiting.pop()
        yield path, value, depth
        if depth > MAX_DEPTH:
            continue
        if isinstance(value, dict):
            yield from ((f"{path} (a key)", key, depth) for key in value)
            waiting += [(f"{path}.{key}", inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{place}]", inner, depth + 1) for place, inner in enumerate(value)]


def _get_first_part(path: str) -> str:
    return path.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]


# Actions that a page offers a person about a thing: an operation with its arguments filled in.


class Asked(Answer):
    """An argument that the person is asked for."""

    name: str
    label: str
    optional: bool | None = None


class Act(Answer):
    """An offered action: the operation and its arguments, without those in `asks`."""

    label: str
    tool: str
    arguments: dict[str, Any]
    asks: list[Asked] | None = None
    title: str | None = None
    """The heading of the dialog; the label if there is none."""


def offer(label: str, tool: str, asks: dict[str, str] | None = None, **arguments: Any) -> Act:
    """Offer an operation; `asks` has the question for each argument that the person is asked for."""
    asked = [Asked(name=name, label=question) for name, question in (asks or {}).items()]
    return Act(label=label, tool=tool, arguments=arguments, asks=asked or None)
