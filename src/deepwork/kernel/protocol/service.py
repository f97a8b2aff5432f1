"""The interface of what a server offers: tools, prompts and resources."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from deepwork.kernel.protocol.messages import JsonText, Request


@dataclass(frozen=True)
class HttpCaller:
    """Where a request over HTTP came from: the caller that the service gets; on stdio it gets None."""

    scope: Mapping[str, Any]
    """The ASGI scope, to which middleware may have added the caller's identity."""
    headers: Mapping[str, str]
    session_id: str | None = None


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool: text for the model, and the same as an object for programs."""

    text: str
    structured: JsonText | None = None
    is_error: bool = False
    attachments: Sequence[Mapping[str, Any]] = ()
    """Content that follows the text, such as images and embedded resources."""


class Service(Protocol):
    """Answers requests. Methods run in the caller's thread; several may run at the same time.

    Each raises `RequestError` for a request that it cannot answer. Any other exception is a bug and reaches
    the client as an internal error.
    """

    name: str
    version: str
    instructions: str
    offers_tasks: bool
    """Whether there is a tool whose calls may become tasks."""

    def is_quick(self, request: Request) -> bool:
        """Whether the answer takes a few milliseconds at most, so that a reader may compute it itself."""

    def is_long(self, request: Request) -> bool:
        """Whether the answer may take minutes."""

    def may_become_task(self, request: Request) -> bool:
        """Whether a slow call may be answered with a task."""

    def get_owner(self, request: Request) -> Hashable:
        """Return who may ask for the task that a call becomes."""

    def observe(self, request: Request) -> AbstractContextManager[object]:
        """Return a context that surrounds each request, for traces."""

    def list_tools(self, request: Request) -> JsonText:
        """Return the JSON array of the tools that the caller may call."""

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer: ...

    def list_prompts(self) -> list[dict[str, Any]]: ...

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the `description` and `messages` of a prompt."""

    def list_resources(self) -> list[dict[str, Any]]: ...

    def list_templates(self) -> list[dict[str, Any]]: ...

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        """Return the `contents` of a resource."""

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        """Return the `completion` of an argument."""
