"""What an operation declares about itself, beside its signature and its docstring.

An operation is anything that somebody can read or do, declared once, in the slice that owns the rows. Those
that agents can call are tools of MCP. Everything else derives from the declaration: the scope that a token
needs, MCP's annotations, the actions that the dashboard offers, how a call is committed and which agent it
acts for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from deepwork.kernel.errors import NotAllowed

ScopeName = Literal["read", "work", "admin"]
Answer = TypeVar("Answer")


class WhenFalse(NamedTuple):
    """A narrower scope for calls in which an argument is exactly `False`.

    Only `False` itself counts: a tool accepts several spellings of true, and none may get past the scope.
    """

    argument: str
    default: bool
    scope: ScopeName


class OperationDeclaration(NamedTuple):
    """What one operation declares."""

    scope: ScopeName
    """What a token must allow."""
    when_false: WhenFalse | None = None
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    acts_as: str | None = None
    """The parameter that names the agent on whose behalf the call is made."""
    for_people: bool = False
    """Whether the dashboard offers the tool as an action."""
    offered_on_read_only_server: bool = False
    """Whether a read-only server offers the tool, too: there it changes nothing."""
    long_running: bool = False
    """Whether the tool runs programs or waits for a lock.

    No transaction is open around it, and servers call it in a separate pool of threads. To store something
    in the database it returns `InTransaction`. A tool that stores its effects elsewhere stores its answer
    with them, and raises `AlreadyAnswered` when an idempotency key is repeated.
    """
    changes_many: bool = False
    """Whether it may change thousands of rows, so that nobody else should wait for its commit."""
    may_become_task: bool = False
    """Whether a slow call may be answered with a task of MCP, which goes on while the client polls it."""
    waits_with: str | None = None
    """The parameter with which a call waits for a change; such a call is treated as `long_running`."""

    prepared_by: str | None = None
    """The method of the same class that does, without a transaction, what a call must do before its own.

    A tool that finds out in its transaction that it has to prove something raises `NotPrepared`. That undoes
    the transaction; then this method gets the same arguments, and the tool is called again, with its result
    in `current_call().prepared`. So a call that has nothing to prove costs nothing, and a repeated
    idempotency key is answered first.
    """
    prepared_when: tuple[str, str] | None = None
    """The argument and its value with which `prepared_by` may take long; such a call counts as slow."""
    unlisted: tuple[str, ...] | None = None
    """Keys inside the arguments that tools/list leaves out: the tool takes them, and another one lists them.

    Unless it is None, descriptions and defaults of the other keys inside the arguments are left out, too.
    """


class NotPrepared(Exception):
    """Raised by a tool in its transaction if the call has to be prepared (`prepared_by`) and was not."""

    def to_error(self) -> NotAllowed:
        """Return the error of a call that was prepared, and lacks something all the same."""
        return NotAllowed(
            "What this call needs changed while it was prepared.", suggestion="Call again.", recoverable=True
        )


class InTransaction(Generic[Answer]):
    """The rest of a long-running call: the transaction that stores its effects and builds its answer.

    It runs once for each idempotency key, in one commit with the key and the answer.
    """

    def __init__(self, work: Callable[[], Answer]) -> None:
        self.work = work


class Preset(NamedTuple):
    """A friendly verb of the command line: another verb with some of its arguments fixed."""

    verb: str
    arguments: Mapping[str, Any]
    help: str
    without: frozenset[str] = frozenset()
    """Further arguments of that verb that do not apply here."""
    as_person: bool = False
    """Whether it always acts as the person at the shell."""
    reports_work: bool = False
    """Whether it is what an agent says of its own work, so that at a terminal it does not act as a person."""


class Traits(NamedTuple):
    """What the operations of one class have in common."""

    toolset: str
    people_only: bool = False
    """Whether only people can call them, by the command line or the dashboard: no agent is offered them."""
    one_transaction: bool = False
    """Whether each tool does all its work in one transaction.

    It then begins before the tool and ends after it, so that the audit log can record the answer. Other tools
    open transactions of their own, between runs of other programs.
    """
    aliases: Mapping[str, str] = {}
    """Friendly verbs of the command line, beside the one derived from the tool's name."""
    presets: Mapping[str, Preset] = {}
    """Friendly verbs that fix some arguments, such as `tasks done` for a status."""


Method = TypeVar("Method", bound=Callable[..., Any])

_DECLARATION_ATTRIBUTE = "__tool_declaration__"


def operation(
    scope: ScopeName,
    *,
    when_false: WhenFalse | None = None,
    read_only: bool | None = None,
    idempotent: bool = False,
    destructive: bool = False,
    acts_as: str | None = None,
    for_people: bool = False,
    offered_on_read_only_server: bool = False,
    long_running: bool = False,
    changes_many: bool = False,
    may_become_task: bool = False,
    waits_with: str | None = None,
    prepared_by: str | None = None,
    prepared_when: tuple[str, str] | None = None,
    unlisted: tuple[str, ...] | None = None,
) -> Callable[[Method], Method]:
    """Declare a method as an operation. One with the scope `read` is read-only."""
    is_read_only = scope == "read" if read_only is None else read_only
    declaration = OperationDeclaration(
        scope,
        when_false=when_false,
        read_only=is_read_only,
        idempotent=idempotent or is_read_only,
        destructive=destructive,
        acts_as=acts_as,
        for_people=for_people,
        offered_on_read_only_server=offered_on_read_only_server,
        long_running=long_running,
        changes_many=changes_many,
        may_become_task=may_become_task,
        waits_with=waits_with,
        prepared_by=prepared_by,
        prepared_when=prepared_when,
        unlisted=unlisted,
    )

    def declare(method: Method) -> Method:
        setattr(method, _DECLARATION_ATTRIBUTE, declaration)
        return method

    return declare


def get_declaration(method: Callable[..., Any]) -> OperationDeclaration:
    """Return what an operation declares; raise if it declares nothing."""
    declaration = getattr(method, _DECLARATION_ATTRIBUTE, None)
    if not isinstance(declaration, OperationDeclaration):
        raise TypeError(f"{method.__qualname__} is public in a class of operations: add @operation(...).")
    return declaration
