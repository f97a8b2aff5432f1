"""All errors of deepwork, as a tree.

DeepworkError
├── ToolError            the call cannot be carried out as asked
│   ├── NotFound         no such thing
│   ├── NotAllowed       it exists, but its state forbids this
│   │   ├── PassphraseNeeded  a person must prove who decides, with a passphrase
│   │   ├── AlreadyStarted   this start of an agent was made before
│   │   ├── DamagedFiles     something else is in the place of a file of an agent's start
│   │   ├── TreeChanged     a tree is not as it was when its files were to be committed
│   │   ├── PlanDone         every task of the plan is done: there is nothing to run
│   │   └── StartFailed      the program of an agent, or its folder, is missing
│   ├── GateClosed       work does not count as done yet: a check or a person has to agree
│   ├── InvalidInput     a parameter is missing, unknown or malformed
│   │   ├── InvalidArguments  the arguments of a tool do not fit its signature
│   │   ├── WeakPlan     a plan goes back to the agent that made it
│   │   └── HttpError    a malformed HTTP request; carries its own status
│   ├── Conflict         another caller was first
│   └── ReviewerError    the external reviewer failed
├── StateError           no job session is active, or its file is damaged
├── DefinitionError      a job.yml, .deepreview or config.yml is wrong
│   └── InvalidDefinition  the same, with its problems by file and line
├── GitError             git failed, was missing or took too long
│   └── NotARepository   the directory is not in a git repository
└── StorageError         the database or a file cannot be read or written
    └── StoreNotAdopted  the SQLite file is not a store of this user

Every error has a code, a message that names its subject, whether the caller can recover, and a suggestion.
A suggestion writes tools as `{tool:task_claim}`: agents read the tool's name, people at a shell its command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

MAX_ECHOED = 200
"""How many characters of a caller's input an error message repeats."""
_TOOL_PATTERN = re.compile(r"\{tool:(\w+)\}")


class Code(StrEnum):
    """Stable, machine-readable error codes; messages may change."""

    # no such thing
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND"
    ATTEMPT_NOT_FOUND = "ATTEMPT_NOT_FOUND"
    CHANNEL_NOT_FOUND = "CHANNEL_NOT_FOUND"
    ISSUE_NOT_FOUND = "ISSUE_NOT_FOUND"
    ITEM_NOT_FOUND = "ITEM_NOT_FOUND"
    JOB_NOT_FOUND = "JOB_NOT_FOUND"
    LANDING_NOT_FOUND = "LANDING_NOT_FOUND"
    MESSAGE_NOT_FOUND = "MESSAGE_NOT_FOUND"
    PHASE_NOT_FOUND = "PHASE_NOT_FOUND"
    RECIPIENT_NOT_FOUND = "RECIPIENT_NOT_FOUND"
    REPOSITORY_NOT_FOUND = "REPOSITORY_NOT_FOUND"
    REVIEW_NOT_FOUND = "REVIEW_NOT_FOUND"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    SENDER_NOT_FOUND = "SENDER_NOT_FOUND"
    REWIND_NOT_FOUND = "REWIND_NOT_FOUND"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    TEMPLATE_NOT_FOUND = "TEMPLATE_NOT_FOUND"
    WISH_NOT_FOUND = "WISH_NOT_FOUND"
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    WORKSPACE_NOT_FOUND = "WORKSPACE_NOT_FOUND"

    # invalid input, or not allowed in this state
    CIRCULAR_DEPENDENCY = "CIRCULAR_DEPENDENCY"
    DUPLICATE_TASK_NAME = "DUPLICATE_TASK_NAME"
    DUPLICATE_TEMPLATE = "DUPLICATE_TEMPLATE"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_STATE = "INVALID_STATE"
    INVALID_TRANSITION = "INVALID_TRANSITION"
    KEY_REUSED = "KEY_REUSED"
    MISSING_ERROR = "MISSING_ERROR"
    MISSING_MERGE_COMMIT = "MISSING_MERGE_COMMIT"
    MISSING_OUTCOME = "MISSING_OUTCOME"
    MISSING_VARIABLES = "MISSING_VARIABLES"
    NO_ACTIVE_SESSION = "NO_ACTIVE_SESSION"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    NOT_CLAIMED = "NOT_CLAIMED"
    PATH_OUTSIDE_PROJECT = "PATH_OUTSIDE_PROJECT"
    REVIEW_FAILED = "REVIEW_FAILED"
    BUDGET_USED_UP = "BUDGET_USED_UP"
    SELF_DEPENDENCY = "SELF_DEPENDENCY"
    STALE_CLAIM = "STALE_CLAIM"
    TASK_BLOCKED = "TASK_BLOCKED"
    TOO_LARGE = "TOO_LARGE"
    UNAUTHORIZED = "UNAUTHORIZED"
    UNKNOWN_DEPENDENCY = "UNKNOWN_DEPENDENCY"
    WORKFLOW_MISMATCH = "WORKFLOW_MISMATCH"

    # work is not done yet, whatever its agent says
    CHECKS_FAILED = "CHECKS_FAILED"
    CHECKS_GUARDED = "CHECKS_GUARDED"
    CHECKS_NOT_TRUSTED = "CHECKS_NOT_TRUSTED"
    CHECKS_RUNNING = "CHECKS_RUNNING"
    NEEDS_APPROVAL = "NEEDS_APPROVAL"

    # a dependency failed
    GIT_ERROR = "GIT_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    REVIEWER_ERROR = "REVIEWER_ERROR"
    SESSION_DAMAGED = "SESSION_DAMAGED"
    STORAGE_ERROR = "STORAGE_ERROR"
    STORAGE_FULL = "STORAGE_FULL"
    STORE_NOT_ADOPTED = "STORE_NOT_ADOPTED"


class DeepworkError(Exception):
    """Base class of all errors that deepwork reports."""

    code: Code = Code.INTERNAL_ERROR
    recoverable: bool = False
    suggestion: str = ""

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        suggestion: str | None = None,
        recoverable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self._suggestion_template = self.suggestion if suggestion is None else suggestion
        self.suggestion = self.render_suggestion(str)
        self.recoverable = self.recoverable if recoverable is None else recoverable

    def render_suggestion(self, name_tool: Callable[[str], str]) -> str:
        """Return the suggestion with each tool named as `name_tool` says."""
        return _TOOL_PATTERN.sub(lambda found: name_tool(found[1]), self._suggestion_template)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as every client receives it."""
        return {
            "code": self.code.value,
            "message": self.message,
            "recoverable": self.recoverable,
            "suggestion": self.suggestion,
        }


class ToolError(DeepworkError):
    """The call cannot be carried out as asked."""


class NotFound(ToolError):
    """It does not exist."""

    suggestion = "List what exists, then call again with an id from that list."
    _code_of: ClassVar[dict[str, Code]] = {
        code.removesuffix("_NOT_FOUND").lower(): code for code in Code if code.endswith("_NOT_FOUND")
    }

    def __init__(self, kind: str, id: str, *, suggestion: str | None = None) -> None:
        super().__init__(
            f"There is no {kind} {id[:MAX_ECHOED]!r}.", code=self._code_of[kind], suggestion=suggestion
        )


class NotAllowed(ToolError):
    """It exists, but its state forbids this."""

    code = Code.INVALID_STATE


class GateClosed(ToolError):
    """The work does not count as done yet: a check or a person has to agree first.

    `evidence` is added to what clients receive: `checks` with verdicts, or `approval` with its id.
    """

    recoverable = True

    def __init__(
        self,
        message: str,
        *,
        code: Code,
        suggestion: str,
        evidence: Mapping[str, Any],
        command: str | None = None,
    ) -> None:
        """`command`: with which a person opens it, for people only."""
        super().__init__(message, code=code, suggestion=suggestion)
        self.evidence, self.command = evidence, command

    def to_dict(self) -> dict[str, Any]:
        """Return the error with its evidence."""
        return {**super().to_dict(), **self.evidence}


class InvalidInput(ToolError):
    """A parameter is missing, unknown or malformed."""

    code = Code.INVALID_INPUT
    recoverable = True
    suggestion = "Correct the parameter and call again."


class InvalidArguments(InvalidInput):
    """The arguments of a tool do not fit its signature."""

    def __init__(self, message: str, tool: str, parameters: Sequence[str]) -> None:
        taken = ", ".join(parameters) or "none"
        super().__init__(message, suggestion=f"Correct this and call {tool} again. Its parameters: {taken}.")
        self.parameters = parameters


class Conflict(ToolError):
    """Another caller was first."""

    code = Code.STALE_CLAIM


class ReviewerError(ToolError):
    """The external reviewer failed."""

    code = Code.REVIEWER_ERROR


class StateError(DeepworkError):
    """No job session is active, or its file is damaged."""

    code = Code.NO_ACTIVE_SESSION


class DefinitionError(DeepworkError):
    """A job.yml, .deepreview or config.yml is wrong."""

    code = Code.INVALID_INPUT
    recoverable = True
    suggestion = "Correct the file and call again."


class GitError(DeepworkError):
    """Git failed, was missing or took too long."""

    code = Code.GIT_ERROR
    suggestion = "Run `deepwork doctor` to see whether git works in this project."


class NotARepository(GitError):
    """The directory is not in a git repository."""

    suggestion = "Run `git init` there, or work in a directory inside a repository."


class StorageError(DeepworkError):
    """The database or a file cannot be read or written."""

    code = Code.STORAGE_ERROR
    suggestion = "Run `deepwork doctor` to see what is wrong and how to fix it."


class StoreNotAdopted(StorageError):
    """The SQLite file is not a store of this user; servers, hooks and the dashboard do not use it."""

    code = Code.STORE_NOT_ADOPTED
    suggestion = (
        "If you know where it comes from, run: deepwork db adopt. It keeps the data, revokes the tokens and "
        "marks what people decided as unverified."
    )
