"""The server instructions that MCP clients show to an agent before any tool call."""

from __future__ import annotations

from collections.abc import Iterable

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
