"""Prompts: what a person picks from a menu to set an agent on its way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import anyio.to_thread
from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.prompts.base import Prompt, PromptArgument
from fastmcp.server.dependencies import get_context
from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS
from mcp.types import Prompt as McpPromptForm
from pydantic import PrivateAttr

from deepwork.agents.store import AgentStore
from deepwork.database.call import Call
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.hooks import telling
from deepwork.hooks.learning import Record
from deepwork.hooks.situation import look, place_of
from deepwork.server.application import Application
from deepwork.server.instructions import WAYS
from deepwork.server.invocation import invoke, spoken
from deepwork.server.registration import call_of
from deepwork.server.registry import ToolSpec

Result = TypeVar("Result")
Arguments = Mapping[str, str]

MOST_JOBS = 20
MAX_GOAL = 10_000
_PARTS = {
    "jobs": ("jobs",),
    "plans": ("held", "context", "plans"),
    "tracking": ("tracked", "tracked_tasks"),
    "messages": ("unread",),
    "agents": ("lost",),
}
"""The parts of a situation, by the toolset whose tools they name."""


def expose_prompts(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Offer those prompts whose tools are offered."""
    desk = PromptDesk(app, tools)
    mcp.add_prompt(
        McpPrompt.of(
            "deepwork_start",
            "Begin a piece of work: which way of working fits, and what is there already.",
            desk.start,
            goal="What you want to achieve",
        )
    )
    mcp.add_prompt(
        McpPrompt.of(
            "deepwork_resume",
            "Go on with what is under way: steps, claimed tasks, tracked work, messages.",
            desk.resume,
            agent_id="Whose work; default: your own",
        )
    )
    if "get_review_instructions" in tools:
        mcp.add_prompt(
            McpPrompt.of(
                "deepwork_review",
                "Run the reviews that the project wants for the changed files.",
                desk.review,
                files="Which files, separated by spaces; default: what changed in git",
            )
        )


class McpPrompt(Prompt):
    """One of our prompts, as FastMCP knows it."""

    _text: Callable[[Arguments, Call], str] = PrivateAttr()

    @classmethod
    def of(
        cls, name: str, description: str, text: Callable[[Arguments, Call], str], **arguments: str
    ) -> McpPrompt:
        prompt = cls(
            name=name,
            description=description,
            arguments=[PromptArgument(name=each, description=what) for each, what in arguments.items()],
        )
        prompt._text = text
        return prompt

    def to_mcp_prompt(self, **overrides: Any) -> McpPromptForm:
        """As prompts/list shows it, without FastMCP's own notes."""
        return super().to_mcp_prompt(**{"_meta": None, **overrides})

    async def render(self, arguments: dict[str, Any] | None = None) -> str:
        """Its text, made in a worker thread."""
        given = {name: str(value).strip() for name, value in (arguments or {}).items()}
        known = [each.name for each in self.arguments or ()]

        def text(call: Call) -> str:
            if unknown := sorted(set(given) - set(known)):
                raise InvalidInput(
                    f"There is no argument `{unknown[0][:60]}`.",
                    suggestion=f"{self.name} takes: {', '.join(known)}.",
                )
            return self._text({name: value for name, value in given.items() if value}, call)

        return await carried_out(self.name, text)


async def carried_out(name: str, work: Callable[[Call], Result]) -> Result:
    """What the work gives, done in a worker thread; its errors say what those of tools say."""
    try:
        return await anyio.to_thread.run_sync(work, call_of(name, get_context()))
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller gets one form of error
        said = spoken(error, name)
        code = INVALID_PARAMS if isinstance(error, DeepworkError) else INTERNAL_ERROR
        raise Refused(code, str(said["message"]), said) from None


class Refused(FastMCPError, MCPError):
    """An error with its details on the wire; FastMCP need not log what a caller did wrong."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        MCPError.__init__(self, code=code, message=message, data=data)
        self.log_level = logging.DEBUG


class PromptDesk:
    """What the prompts say."""

    def __init__(self, app: Application, tools: Mapping[str, ToolSpec]) -> None:
        self._app = app
        self._tools = tools

    def start(self, arguments: Arguments, call: Call) -> str:
        """Which way of working fits a goal, and what is there."""
        goal = arguments.get("goal", "")
        if len(goal) > MAX_GOAL:
            raise InvalidInput(
                f"`goal` has {len(goal)} characters; at most {MAX_GOAL} are read.",
                suggestion="Say it shorter, or put it into a file and name the file.",
            )
        parts = [
            f"Work on this with deepwork:\n\n{goal}"
            if goal
            else "Ask me what to achieve, then use deepwork.",
            "Choose the way of working that fits, say in a sentence which and why, then begin:",
            "\n".join(self._ways()),
            *self._jobs(call),
            self._situation(self._record(None, call)),
        ]
        return "\n\n".join(filter(None, parts))

    def resume(self, arguments: Arguments, call: Call) -> str:
        """How things stand, for whom."""
        text = self._situation(self._record(arguments.get("agent_id"), call))
        if not text:
            return "Nothing is under way in deepwork. Ask me what to begin, or use the prompt deepwork_start."
        return (
            f"Go on with what is under way.\n\n{text}\n\nSay in a sentence what you go on with, then do so."
            " If several things are under way and none is yours, ask me which."
        )

    def review(self, arguments: Arguments, _: Call) -> str:
        """How reviews are run."""
        files = arguments.get("files", "").split()
        asked = f"files={files!r}" if files else ""
        return (
            f"Run the reviews of the changed files: call get_review_instructions({asked}) and start every"
            " task that it lists, all at the same time, each with its own prompt. Mend what they find. For"
            " each review that found nothing call mark_review_passed with its review_id. Call"
            f" get_review_instructions({asked}) again until it lists nothing more; the same finding twice is"
            " for me to decide. Then tell me what was reviewed, what was found, and what you changed."
        )

    def _ways(self) -> Iterator[str]:
        toolsets = {spec.toolset for spec in self._tools.values()}
        return (f"- {way}" for toolset, way in WAYS.items() if toolset in toolsets)

    def _jobs(self, call: Call) -> Iterator[str]:
        """The recipes that this project has."""
        if (spec := self._tools.get("get_workflows")) is None:
            return
        found = invoke(self._app.database, spec, {}, call)["jobs"]
        lines = [
            f"- {job['name']}/{workflow['name']}: {telling.one_line(workflow['summary'], 120)}"
            for job in found
            for workflow in job["workflows"]
        ]
        if lines:
            more = f"\n- and {len(lines) - MOST_JOBS} more: get_workflows" if len(lines) > MOST_JOBS else ""
            yield "Jobs that are there:\n" + "\n".join(lines[:MOST_JOBS]) + more

    def _situation(self, record: Record) -> str:
        place = place_of(self._app.settings)
        with self._app.database.reading() as tx:
            found = look(tx, place, record)
        return telling.situation_text(replace(found, **self._left_out()))

    def _left_out(self) -> dict[str, Any]:
        """What is not told, as the tools to go on with it are not offered."""
        offered = {spec.toolset for spec in self._tools.values()}
        missing = [part for toolset, parts in _PARTS.items() if toolset not in offered for part in parts]
        return {part: None if part == "context" else [] for part in missing}

    def _record(self, agent_id: str | None, call: Call) -> Record:
        """For whom: the agent that is named, or the only one that the caller registered."""
        with self._app.database.reading() as tx:
            store = AgentStore(tx)
            agent = store.get(agent_id) if agent_id else store.only_one_of(call.caller)
        return Record("mcp", call.caller, agents=(agent.id,) if agent else ())
