"""MCP prompts, which a person picks from a menu to start or resume an agent's work."""

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
from deepwork.call import Call
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.hooks import rendering
from deepwork.hooks.current_work import get_project_scope, load_current_work
from deepwork.hooks.identity import SessionRecord
from deepwork.server.application import Application
from deepwork.server.instructions import WAYS
from deepwork.server.invocation import error_to_dict, invoke
from deepwork.server.registration import build_call
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
"""Fields of `CurrentWork`, by the toolset whose tools they mention."""


def register_prompts(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Register the prompts whose tools are enabled."""
    renderer = PromptRenderer(app, tools)
    mcp.add_prompt(
        McpPrompt.create(
            "deepwork_start",
            "Begin work: choose a way of working, and see existing jobs and open work.",
            renderer.render_start,
            goal="What you want to achieve",
        )
    )
    mcp.add_prompt(
        McpPrompt.create(
            "deepwork_resume",
            "Continue open work: job steps, claimed tasks, tracked work, messages.",
            renderer.render_resume,
            agent_id="Agent to resume; default: your own",
        )
    )
    if "get_review_instructions" in tools:
        mcp.add_prompt(
            McpPrompt.create(
                "deepwork_review",
                "Run the reviews that the project requires for the changed files.",
                renderer.render_review,
                files="Files, separated by spaces; default: files changed in git",
            )
        )


class McpPrompt(Prompt):
    """A deepwork prompt as a FastMCP prompt."""

    _text: Callable[[Arguments, Call], str] = PrivateAttr()

    @classmethod
    def create(
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
        """Convert for prompts/list, without FastMCP's metadata."""
        return super().to_mcp_prompt(**{"_meta": None, **overrides})

    async def render(self, arguments: dict[str, Any] | None = None) -> str:
        """Render the text in a worker thread."""
        given = {name: str(value).strip() for name, value in (arguments or {}).items()}
        known = [each.name for each in self.arguments or ()]

        def text(call: Call) -> str:
            if unknown := sorted(set(given) - set(known)):
                raise InvalidInput(
                    f"There is no argument `{unknown[0][:60]}`.",
                    suggestion=f"{self.name} takes: {', '.join(known)}.",
                )
            return self._text({name: value for name, value in given.items() if value}, call)

        return await run_in_worker(self.name, text)


async def run_in_worker(name: str, work: Callable[[Call], Result]) -> Result:
    """Run the work in a worker thread; errors have the same format as those of tools."""
    try:
        return await anyio.to_thread.run_sync(work, build_call(name, get_context()))
    except Exception as error:  # noqa: BLE001 - callers get every error in the same format
        details = error_to_dict(error, name)
        code = INVALID_PARAMS if isinstance(error, DeepworkError) else INTERNAL_ERROR
        raise McpRequestError(code, str(details["message"]), details) from None


class McpRequestError(FastMCPError, MCPError):
    """An MCP error that carries details; logged at debug level, because it is the caller's mistake."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        MCPError.__init__(self, code=code, message=message, data=data)
        self.log_level = logging.DEBUG


class PromptRenderer:
    """Renders the texts of the prompts."""

    def __init__(self, app: Application, tools: Mapping[str, ToolSpec]) -> None:
        self._app = app
        self._tools = tools

    def render_start(self, arguments: Arguments, call: Call) -> str:
        """Render the ways of working, existing jobs and current work for a goal."""
        goal = arguments.get("goal", "")
        if len(goal) > MAX_GOAL:
            raise InvalidInput(
                f"`goal` has {len(goal)} characters; the limit is {MAX_GOAL}.",
                suggestion="Shorten it, or put it in a file and name the file.",
            )
        parts = [
            f"Work on this with deepwork:\n\n{goal}"
            if goal
            else "Ask me what to achieve, then use deepwork.",
            "Choose the way of working that fits, say in one sentence which and why, then begin:",
            "\n".join(self._list_ways()),
            *self._list_jobs(call),
            self._render_current_work(self._find_identity(None, call)),
        ]
        return "\n\n".join(filter(None, parts))

    def render_resume(self, arguments: Arguments, call: Call) -> str:
        """Render the current work of an agent."""
        text = self._render_current_work(self._find_identity(arguments.get("agent_id"), call))
        if not text:
            return "deepwork has no open work. Ask me what to begin, or use the prompt deepwork_start."
        return (
            f"Continue the open work.\n\n{text}\n\nSay in one sentence what you continue, then do it."
            " If several items are open and none is yours, ask me which."
        )

    def render_review(self, arguments: Arguments, _: Call) -> str:
        """Render the instructions to run reviews."""
        files = arguments.get("files", "").split()
        asked = f"files={files!r}" if files else ""
        return (
            f"Run the reviews of the changed files: call get_review_instructions({asked}) and start every"
            " task that it lists, all at the same time, each with its own prompt. Fix what they find. For"
            " each review without findings call mark_review_passed with its review_id. Call"
            f" get_review_instructions({asked}) again until it lists nothing more; leave a finding that"
            " comes back to me. Then report what was reviewed, what was found, and what you changed."
        )

    def _list_ways(self) -> Iterator[str]:
        toolsets = {spec.toolset for spec in self._tools.values()}
        return (f"- {way}" for toolset, way in WAYS.items() if toolset in toolsets)

    def _list_jobs(self, call: Call) -> Iterator[str]:
        """List the jobs of this project."""
        if (spec := self._tools.get("get_workflows")) is None:
            return
        found = invoke(self._app.database, spec, {}, call)["jobs"]
        lines = [
            f"- {job['name']}/{workflow['name']}: {rendering.format_one_line(workflow['summary'], 120)}"
            for job in found
            for workflow in job["workflows"]
        ]
        if lines:
            more = f"\n- and {len(lines) - MOST_JOBS} more: get_workflows" if len(lines) > MOST_JOBS else ""
            yield "Available jobs:\n" + "\n".join(lines[:MOST_JOBS]) + more

    def _render_current_work(self, record: SessionRecord) -> str:
        place = get_project_scope(self._app.settings)
        with self._app.database.reading() as tx:
            found = load_current_work(tx, place, record)
        return rendering.render_current_work(replace(found, **self._list_omitted_parts()))

    def _list_omitted_parts(self) -> dict[str, Any]:
        """Return empty values for the parts whose tools are not enabled."""
        offered = {spec.toolset for spec in self._tools.values()}
        missing = [part for toolset, parts in _PARTS.items() if toolset not in offered for part in parts]
        return {part: None if part == "context" else [] for part in missing}

    def _find_identity(self, agent_id: str | None, call: Call) -> SessionRecord:
        """Find the named agent, or the only one that the caller registered."""
        with self._app.database.reading() as tx:
            store = AgentStore(tx)
            agent = store.get(agent_id) if agent_id else store.find_only_agent_of(call.caller)
        return SessionRecord("mcp", call.caller, agents=(agent.id,) if agent else ())
