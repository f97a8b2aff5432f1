"""The base class of tool answers: plain objects that pydantic is needed to describe, but not to build."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.timestamps import format_timestamp

if TYPE_CHECKING:
    from pydantic import BaseModel

Kind = TypeVar("Kind", bound="Answer")
_REQUIRED: Any = object()

IsoTime = str
"""A time in an answer: ISO 8601 in UTC. `Answer.of` formats the Unix milliseconds that a record has."""


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
    _defaults: ClassVar[Mapping[str, Any]] = {}
    _times: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        kinds = inspect.get_annotations(cls)
        own = {
            name: cls.__dict__.get(name, _REQUIRED)
            for name, kind in kinds.items()
            if not kind.startswith("ClassVar")
        }
        cls._times |= {name for name, kind in kinds.items() if kind.startswith("IsoTime")}
        cls.model_fields = {**cls.model_fields, **own}
        cls._defaults = {name: value for name, value in cls.model_fields.items() if value is not _REQUIRED}

    def __init__(self, **values: Any) -> None:
        """Take values by name; others are ignored, so that all values of a row or model can be passed."""
        known = self.model_fields
        fields = {**self._defaults, **{name: value for name, value in values.items() if name in known}}
        if len(fields) != len(known):
            missing = ", ".join(known.keys() - fields.keys())
            raise TypeError(f"{type(self).__name__}: missing: {missing}")
        self.__dict__.update(fields)

    @classmethod
    def of(cls, record: object, **others: Any) -> Self:
        """Build the answer from the attributes of a record that have the names of its fields.

        `others` are the fields that the record does not have, or that the answer shows differently.
        """
        found = {
            name: getattr(record, name)
            for name in cls.model_fields
            if name not in others and hasattr(record, name)
        }
        times = {name: format_timestamp(found[name]) for name in cls._times if type(found.get(name)) is int}
        return cls(**found | times | others)

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
        fields = self.__dict__
        return {
            name: to_json_value(fields[name])
            for name in self.model_fields
            if fields[name] is not None or name in self.kept_nulls
        }

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
