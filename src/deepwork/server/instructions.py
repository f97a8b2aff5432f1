"""What an agent is told about deepwork before it knows any tool."""

from __future__ import annotations

from collections.abc import Iterable

_LOOP = """\
deepwork keeps agent work durable, reviewable and visible: what is stored
here survives compaction, restarts and crashes.

The life of a workflow:
1. Discover - see what is there before you begin: workflows, open work, agents, messages.
2. Start - begin one thing and keep the id you get; every later call names it.
3. Execute - do the work that the answer describes.
4. Checkpoint - report as you go, with results and files, so that anybody can go on from there.
5. Iterate - an answer that says work is needed is not a failure: mend it and report again.
6. Continue - take the next step or task that the answer offers.
7. Complete - finish explicitly; "done" is what deepwork has recorded, not what you remember.

An error is JSON with code, message, recoverable and suggestion: do what the suggestion says.
A call that may have been lost can be repeated under the same key: set _meta "deepwork/idempotency-key".
"""

_TOOLSETS = {
    "jobs": "Jobs: get_workflows, then start_workflow; do what step_instructions say and call finished_step with the output files, until workflow_complete. needs_work means: mend it and call again. Lost? get_session.",  # noqa: E501
    "reviews": "Reviews: before you call work done, call get_review_instructions and run the tasks it lists in parallel; mend what they find; mark_review_passed for each that finds nothing.",  # noqa: E501
    "tracking": "Tracking, for work no plan foresaw: start_workflow with name and objective, start_phase; each agent start_task, log_decision, log_issue, complete_task; get_context tells what others did and what waits for a person.",  # noqa: E501
    "templates": "Templates: before you plan something usual, look into template_list; template_apply makes a workflow with its whole plan. Keep a plan that worked with template_create.",  # noqa: E501
    "workspaces": "Workspaces: work in the tree that task_claim names; workspace_check before you merge, workspace_update after.",  # noqa: E501
    "agents": "Agents: call agent_register once, then agent_heartbeat as often as it asks; any other call in your name counts as a heartbeat too. Call agent_unregister when you leave.",  # noqa: E501
    "messages": "Messages: look into message_list between tasks; answer with message_send and reply_to_id.",
}


def instructions(toolsets: Iterable[str]) -> str:
    """The loop first, then a line for each toolset that is on."""
    offered = set(toolsets)
    return "\n".join([_LOOP, *(line for name, line in _TOOLSETS.items() if name in offered)])
