"""What an agent is told about deepwork before it knows any tool."""

from __future__ import annotations

from collections.abc import Iterable

_LOOP = """\
deepwork keeps agent work durable, reviewable and visible: it survives compaction, restarts and crashes.

The life of a workflow:
1. Discover - see what is under way before you begin, and go on with that first.
2. Start - choose one way of working below and keep the id you get; every later call names it.
3. Execute - do what the answer describes.
4. Checkpoint - report as you go, with results and files, so that anybody can go on from there.
5. Iterate - an answer that says work is needed is no failure: mend it and report again.
6. Continue - take the next step or task that the answer offers.
7. Complete - finish explicitly; done is what deepwork has recorded, not what you remember.

An error is JSON with code, message, recoverable and suggestion: do what the suggestion says.
Repeat a call that may be lost under the same _meta "deepwork/idempotency-key".
"""

WAYS = {
    "jobs": "Jobs, for work that a recipe here describes: get_workflows, start_workflow(goal, job_name, workflow_name); do step_instructions, call finished_step with the output files, until workflow_complete. needs_work: mend it, call again. Lost? get_session.",  # noqa: E501
    "plans": "Plans, for work you can lay out as tasks: workflow_list, workflow_create, workflow_set_plan; each agent: workflow_next_tasks, task_claim, task_load_context, checkpoint_add, task_update_status.",  # noqa: E501
    "tracking": "Tracking, for work nobody can foresee: start_workflow(name, objective), start_phase; each agent: start_task, log_decision, log_issue, complete_task. get_context tells what others did.",  # noqa: E501
}
"""The ways of working, of which one is chosen for a piece of work."""

_BESIDE = {
    "templates": "Templates: template_list before you plan something usual; template_apply makes the plan.",
    "reviews": "Reviews: before work is done, run the tasks of get_review_instructions in parallel; mark_review_passed for each that finds nothing.",  # noqa: E501
    "workspaces": "Workspaces: work in the tree that task_claim names; workspace_check before a merge, workspace_update after.",  # noqa: E501
    "agents": "Agents: agent_register once, agent_unregister at the end; any call in your name keeps your claims, as does agent_heartbeat.",  # noqa: E501
    "messages": "Messages: message_list between tasks; answer by message_send with reply_to_id.",
}


def instructions(toolsets: Iterable[str]) -> str:
    """The loop first, then a line for each toolset that is on, ways of working before the rest."""
    offered = set(toolsets)
    return "\n".join([_LOOP, *(line for name, line in (WAYS | _BESIDE).items() if name in offered)])
