"""Dataclasses that cost little to define: a command imports hundreds of them, and builds objects of a few.

The standard decorator compiles up to six methods for each class, which took a third of the processor time of
a short command. Here classes share their methods, and `__init__` is compiled when the first object is built.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - the same, for who reads types
else:

    def dataclass(kind=None, /, **options):
        """Make a dataclass, as `dataclasses.dataclass` does; `order` and `unsafe_hash` are not supported."""
        return partial(_define, **options) if kind is None else _define(kind, **options)


def _define(kind: Any, *, frozen: bool = False, eq: bool = True, **options: bool) -> Any:
    if not kind.__doc__:
        kind.__doc__ = kind.__name__  # the standard decorator would format the signature
    made = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(kind)
    own = vars(made)
    methods: dict[str, Any] = {"__init__": _compile_on_first_use(made, frozen=frozen), "__repr__": _represent}
    if eq:
        methods |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
    if frozen and "__slots__" in own:  # copies would set attributes
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    defined = set(own)
    if own.get("__hash__") is None and "__eq__" in own:
        defined.discard("__hash__")  # Python set it to None
    for name in methods.keys() - defined:
        setattr(made, name, methods[name])
    return made


def _compile_on_first_use(kind: Any, *, frozen: bool) -> Callable[..., None]:
    def compile_and_call(self: Any, *args: Any, **kwargs: Any) -> None:
        kind.__init__ = _compile_init(kind, frozen=frozen)
        kind.__init__(self, *args, **kwargs)

    return compile_and_call


_ABSENT = object()


def _compile_init(kind: type, *, frozen: bool) -> Callable[..., None]:
    """Compile `__init__`, with the parameters that the standard decorator gives it."""
    known: dict[str, Any] = {"_ABSENT": _ABSENT, "_set": object.__setattr__}
    positional: list[str] = ["self"]
    by_name: list[str] = []
    body: list[str] = []
    for each in dataclasses.fields(kind):
        parameter, value = _describe_field(each, known, has_slots="__slots__" in vars(kind))
        if parameter:
            (by_name if each.kw_only else positional).append(parameter)
        if value:
            body.append(f"_set(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), known)  # noqa: S102 - names of our fields
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _describe_field(
    field: dataclasses.Field[Any], known: dict[str, Any], *, has_slots: bool
) -> tuple[str, str]:
    """Return a field's parameter, if it has one, and the expression of its value, if `__init__` sets it."""
    name = field.name
    if field.default_factory is not dataclasses.MISSING:
        known[f"_make_{name}"] = field.default_factory
        if not field.init:
            return "", f"_make_{name}()"
        return f"{name}=_ABSENT", f"_make_{name}() if {name} is _ABSENT else {name}"
    if field.default is dataclasses.MISSING:
        return (name, name) if field.init else ("", "")
    known[f"_default_{name}"] = field.default
    if field.init:
        return f"{name}=_default_{name}", name
    return "", f"_default_{name}" if has_slots else ""  # otherwise the class has it


def _represent(self: Any) -> str:
    shown = (each.name for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _equal(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    kind: Any = type(self)
    get_key = _find_key(kind)
    return get_key(self) == get_key(other)


def _hash(self: Any) -> int:
    kind: Any = type(self)
    return hash(_find_key(kind)(self))


@cache
def _find_key(kind: Any) -> Callable[[Any], Any]:
    """Return what gets the values that say whether two objects are equal."""
    names = [each.name for each in dataclasses.fields(kind) if each.compare]
    return attrgetter(*names) if names else lambda _: ()


def _refuse_change(_: Any, name: str, *__: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
