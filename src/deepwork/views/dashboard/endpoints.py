"""Building blocks of read endpoints: their declaration, query parameters, read context and cursors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_serializer
from pydantic_core.core_schema import SerializerFunctionWrapHandler
from starlette.convertors import Convertor, register_url_convertor

from deepwork.gates.access.models import Scope
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.operations import OperationDeclaration
from deepwork.kernel.paging import decode_cursor as decode_cursor  # noqa: PLC0414 - until all lists are routes
from deepwork.kernel.paging import encode_cursor as encode_cursor  # noqa: PLC0414
from deepwork.views.overview.states.store import UNKNOWN_PROCESSES, LocalProcesses
from deepwork.views.overview.states.view import StateView
from deepwork.work.agents.presence import Presence


class NoParameters(BaseModel):
    """No parameters."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(NoParameters):
    """Parameters of a paginated list: up to `limit` items after `cursor`."""

    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(default=None, description="`cursor` from the previous page")


class RestAnswer(BaseModel):
    """Base class of answers, built from rows of the store; serialised without null values."""

    # Schemas are built on first use: a process uses only a few of the answer classes.
    model_config = ConfigDict(frozen=True, defer_build=True)
    kept_nulls: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _drop_nulls(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {
            key: value for key, value in dump(self).items() if value is not None or key in self.kept_nulls
        }


class PagedAnswer(RestAnswer):
    """One page of a list: the total count, and the cursor of the next page, null on the last."""

    kept_nulls: ClassVar[frozenset[str]] = frozenset({"cursor"})

    total: int
    cursor: str | None = None


@dataclass(frozen=True)
class ReadContext:
    """One consistent view of the store, and the path parameters."""

    tx: Transaction
    presence: Presence
    path: Mapping[str, str]
    processes: LocalProcesses = UNKNOWN_PROCESSES
    """What this machine knows about who drives what."""

    @property
    def state_folder(self) -> Path | None:
        """The folder of this project's state, which has the output of agents."""
        return self.processes.state_folder

    @cached_property
    def states(self) -> StateView:
        """Judges what is read."""
        return StateView(self.tx, self.processes)

    @property
    def id(self) -> str:
        return self.path["id"]

    @cached_property
    def now(self) -> int:
        return self.tx.now


class Operation(Protocol):
    """What REST needs to know about an operation; the registry of the server has it."""

    @property
    def description(self) -> str: ...
    @property
    def declaration(self) -> OperationDeclaration: ...
    @property
    def parameters(self) -> type[BaseModel]: ...
    @property
    def answer_type(self) -> Any: ...


Operations = Callable[[], Mapping[str, Operation]]
"""Returns everything that anybody can call, by name."""


@dataclass(frozen=True)
class OperationRoute:
    """A GET endpoint that an operation answers.

    The parameters in path and query are its arguments. Its declaration says the rest: what a token must
    cover, which parameters there are, and what the answer has.
    """

    path: str
    operation: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """By the name of a parameter in the path, that of the argument, if it is another one."""
    follows_events: bool = False
    """True if the answer changes only with a new event: not with time, nor with writes that emit no event."""
    reads_files: bool = False
    """True if the answer depends on files: no transaction is open around it, and its ETag never matches."""

    @property
    def path_arguments(self) -> frozenset[str]:
        """The arguments that the path has; all others are in the query."""
        return frozenset(self.renamed.get(name, name) for name in re.findall(r"{(\w+)}", self.path))

    @property
    def pattern(self) -> str:
        """The path for the router: the id of a job step contains a slash."""
        is_last = self.path.endswith("tasks/{id}")
        return self.path.replace("tasks/{id}", "tasks/{id:path}" if is_last else "tasks/{id:task}")


@dataclass(frozen=True)
class Endpoint:
    """A GET endpoint that reads the store."""

    path: str
    summary: str
    query: type[BaseModel]
    answer: type[BaseModel | Answer]
    read: Callable[[ReadContext, Any], BaseModel | Answer | Mapping[str, Any]]
    """May return plain values if the answer is large; `answer` then only documents them."""
    follows_events: bool = False
    """True if the answer changes only with a new event: not with time, nor with writes that emit no event."""
    scope: Scope = Scope.READ
    """What a token must cover to read it."""

    @property
    def pattern(self) -> str:
        """The path for the router. The id of a job step contains a slash, so task ids match as paths."""
        return self.path.replace("tasks/{id}", "tasks/{id:path}")


class _TaskIdConvertor(Convertor[str]):
    """Matches a task id that is followed by more path.

    A session id alone does not match: in `tasks/<session>/diff`, `diff` is then the name of a step.
    """

    regex = "t[kt]_[^/]+|[^/]+/[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("task", _TaskIdConvertor())
