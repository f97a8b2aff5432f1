"""The instructions and prompts that clients get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import OperationSpec
from deepwork.kernel.call import Call
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import FRAME, quote_line
from deepwork.kernel.records import dataclass
from deepwork.views.hooks import rendering
from deepwork.views.hooks.current_work import get_project_scope, load_current_work
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.notices import list_setbacks
from deepwork.work.agents.store import AgentStore

_LIFECYCLE_TEXT = """\
deepwork keeps agent work durable, reviewable and visible: it survives compaction, restarts and crashes.

The lifecycle of a workflow:
1. Discover - look for open work before you begin, and finish that first.
2. Start - choose one way of working below and keep the id it returns; every later call needs it.
3. Execute - do what the answer describes.
4. Checkpoint - report results and files as you go, so that another agent can take over.
5. Iterate - an answer that asks for more work is not a failure: fix it and report again.
6. Continue - take the next step or task that the answer offers.
7. Complete - finish explicitly; only what deepwork has recorded is done.

An error is JSON with code, message, recoverable and suggestion: follow the suggestion.
Repeat a call that may have been lost with the same _meta "deepwork/idempotency-key".
"""

WAYS = {
    "jobs": "Jobs, for work that has a recipe: get_workflows, start_workflow(goal, job_name, workflow_name); do step_instructions, call finished_step with the output files, until workflow_complete. needs_work: fix it, call again. Lost? get_session.",  # noqa: E501
    "plans": "Plans, for work you can split into tasks: workflow_list, workflow_create, workflow_set_plan; each agent: workflow_next_tasks, task_claim(start, include_context), checkpoint_add, task_update_status (names the next tasks). Lost? task_load_context.",  # noqa: E501
    "tracking": "Tracking, for work you cannot plan: start_workflow(name, objective), start_phase; each agent: start_task, log_decision, log_issue, complete_task. Lost? get_tracked_workflows, get_context.",  # noqa: E501
}
"""By toolset, the ways of working; an agent chooses one for a piece of work."""

_SUPPORTING_TOOLSETS = {
    "templates": "Templates: template_list before you plan common work; template_apply creates the plan.",
    "reviews": "Reviews: before you finish, run the tasks of get_review_instructions in parallel; mark_review_passed for each without findings.",  # noqa: E501
    "workspaces": "Workspaces: work in the tree that task_claim names; workspace_check before a merge, workspace_update after.",  # noqa: E501
    "agents": "Agents: agent_register once, agent_unregister at the end; any call with your agent id renews your claims, as does agent_heartbeat.",  # noqa: E501
    "messages": "Messages: message_list between tasks; reply with message_send and reply_to_id.",
}


def build_instructions(toolsets: Iterable[str]) -> str:
    """Build the instructions: the loop, then a line for each enabled toolset, ways of working first."""
    offered = set(toolsets)
    return "\n".join(
        [_LIFECYCLE_TEXT, *(line for name, line in (WAYS | _SUPPORTING_TOOLSETS).items() if name in offered)]
    )


Arguments = Mapping[str, str]

MOST_JOBS = 20
MAX_GOAL = 10_000
_FIELDS_BY_TOOLSET = {
    "jobs": ("jobs",),
    "plans": ("held", "context", "plans"),
    "tracking": ("tracked", "tracked_tasks"),
    "messages": ("unread",),
}
"""Fields of `CurrentWork`, by the toolset whose tools they mention."""


@dataclass(frozen=True)
class PromptSpec:
    """The description of one prompt."""

    name: str
    description: str
    arguments: Mapping[str, str]
    """By name, what each argument means; none is required."""
    render_text: Callable[[Arguments, Call], str]

    def to_dict(self) -> dict[str, Any]:
        """Describe the prompt as prompts/list does."""
        arguments = [
            {"name": name, "description": meaning, "required": False}
            for name, meaning in self.arguments.items()
        ]
        return {"name": self.name, "description": self.description, "arguments": arguments}

    def render(self, arguments: Arguments, call: Call) -> str:
        """Render the text; empty arguments count as absent."""
        given = {name: str(value).strip() for name, value in arguments.items()}
        if unknown := sorted(set(given) - set(self.arguments)):
            raise InvalidInput(
                f"There is no argument `{unknown[0][:60]}`.",
                suggestion=f"{self.name} takes: {', '.join(self.arguments)}.",
            )
        return self.render_text({name: value for name, value in given.items() if value}, call)


def build_prompts(app: Application, tools: Mapping[str, OperationSpec]) -> dict[str, PromptSpec]:
    """Build the prompts whose tools are enabled, by name."""
    renderer = PromptRenderer(app, tools)
    prompts = [
        PromptSpec(
            "deepwork_start",
            "Begin work: choose a way of working, and see existing jobs and open work.",
            {"goal": "What you want to achieve"},
            renderer.render_start,
        ),
        PromptSpec(
            "deepwork_resume",
            "Continue open work: job steps, claimed tasks, tracked work, messages.",
            {"agent_id": "Agent to resume; default: your own"},
            renderer.render_resume,
        ),
        PromptSpec(
            "deepwork_review",
            "Run the reviews that the project requires for the changed files.",
            {"files": "Files, separated by spaces; default: files changed in git"},
            renderer.render_review,
        ),
    ]
    is_offered = {"deepwork_review": "get_review_instructions" in tools}
    return {prompt.name: prompt for prompt in prompts if is_offered.get(prompt.name, True)}


class PromptRenderer:
    """Renders the texts of the prompts."""

    def __init__(self, app: Application, tools: Mapping[str, OperationSpec]) -> None:
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
        ]
        found = [*self._list_jobs(call), self._render_current_work(self._find_identity(None, call))]
        if any(found):
            parts += [FRAME, *found]
        return "\n\n".join(filter(None, parts))

    def render_resume(self, arguments: Arguments, call: Call) -> str:
        """Render the current work of an agent."""
        text = self._render_current_work(self._find_identity(arguments.get("agent_id"), call))
        if not text:
            return "deepwork has no open work. Ask me what to begin, or use the prompt deepwork_start."
        return (
            f"Continue the open work. {FRAME}\n\n{text}\n\nSay in one sentence what you continue, then do it."
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
            f"- {quote_line(job['name'] + '/' + workflow['name'])}: {quote_line(workflow['summary'], 120)}"
            for job in found
            for workflow in job["workflows"]
        ]
        if lines:
            more = f"\n- and {len(lines) - MOST_JOBS} more: get_workflows" if len(lines) > MOST_JOBS else ""
            yield "Available jobs:\n" + "\n".join(lines[:MOST_JOBS]) + more

    def _render_current_work(self, record: SessionRecord) -> str:
        place = get_project_scope(self._app.settings)
        has_agents = "agent_heartbeat" in self._tools
        with self._app.database.reading() as tx:
            found = load_current_work(tx, place, record)
            setbacks = list_setbacks(tx, record) if has_agents else []
        work = rendering.render_current_work(replace(found, **self._list_omitted_parts()))
        notices = [rendering.render_notice(each, found.now) for each in setbacks]
        return "\n\n".join(filter(None, [*notices, work]))

    def _list_omitted_parts(self) -> dict[str, Any]:
        """Return empty values for the parts whose tools are not enabled."""
        offered = {spec.toolset for spec in self._tools.values()}
        missing = [
            part for toolset, parts in _FIELDS_BY_TOOLSET.items() if toolset not in offered for part in parts
        ]
        return {part: None if part == "context" else [] for part in missing}

    def _find_identity(self, agent_id: str | None, call: Call) -> SessionRecord:
        """Find the named agent, or the only one that the caller registered."""
        with self._app.database.reading() as tx:
            store = AgentStore(tx)
            agent = store.get(agent_id) if agent_id else store.find_only_agent_of(call.caller)
        return SessionRecord("mcp", call.caller, agents=(agent.id,) if agent else ())
