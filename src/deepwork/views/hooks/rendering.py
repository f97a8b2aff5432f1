"""Renders current work as short text for an agent that lost its context, with the next tool call to make.

Whatever others wrote, names included, goes through `foreign_text`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.foreign_text import FRAME, close_quotes, quote, quote_line, quote_value, show_id
from deepwork.kernel.states import RUNNING, State
from deepwork.kernel.values import format_age
from deepwork.views.overview.current_work_store import MOST_COUNTED

if TYPE_CHECKING:
    from deepwork.kernel.notices.models import Notice
    from deepwork.kernel.states import Standing
    from deepwork.views.hooks.current_work import CurrentWork

MAX_TOKENS = 2000
"""Token budget of one hook answer."""
_MAX_BODY_LENGTH = 1000
_MAX_NOTICE_LENGTH = 2000
_MAX_CHECKS = 5
_MAX_PATH_LENGTH = 4096


def render_current_work(work: CurrentWork) -> str:
    """Render all parts within the budget; empty if there is no current work."""
    if work.is_empty:
        return ""
    parts = [
        "Open work recorded in deepwork:",
        *_render_identity(work),
        *(_render_own_jobs(work.jobs) if work.jobs_are_own else _render_other_jobs(work.jobs)),
        *_render_held_tasks(work),
        *_render_tracked_workflows(work),
        *_render_plans(work),
        *_render_unread(work.unread),
    ]
    return cut_to_budget("\n".join(parts))


def frame_texts(texts: Iterable[str]) -> str:
    """Join the texts of one hook within the budget, and say what quotes mean; empty if there are none."""
    joined = "\n\n".join(filter(None, texts))
    return cut_to_budget(f"{FRAME}\n{joined}") if joined else ""


def cut_to_budget(text: str) -> str:
    """Cut text that exceeds the token budget."""
    if len(text.encode()) <= MAX_TOKENS:  # a token has at least one byte
        return text
    from deepwork.kernel.text_budget.tokens import fits, measure_head  # noqa: PLC0415 - most texts are short

    if fits(text, MAX_TOKENS):
        return text
    head = close_quotes(text[: measure_head(text, MAX_TOKENS - 20)])
    return f"{head}\n… (cut; deepwork's tools return the rest)"


def render_notice(notice: Notice, now: int) -> str:
    """Render what an agent must hear of, with what to do next where the text does not say it."""
    task = f", task {show_id(notice.task_id)}" if notice.task_id else ""
    duty = "; act on it" if notice.is_binding else ""
    lines = [
        f"Notice from {quote_line(notice.by_whom)}, {format_age(notice.at, now)}{task}{duty}:",
        quote(notice.text, _MAX_NOTICE_LENGTH),
    ]
    if notice.type == "message" and notice.about is not None:
        marking = f"message_mark_read(message_ids=[{quote_line(notice.about)}])"
        lines.append(f"Mark it with {marking}; answer with message_send.")
    if notice.type in ("lost", "offline"):
        lines.append(f"Call agent_heartbeat(agent_id={quote_line(notice.agent_id)}); it returns lost claims.")
    return "\n".join(lines)


def render_stop_reminder(job: Row | None, held: Iterable[Row]) -> str:
    """Render unfinished work for an agent about to stop; empty if all is finished."""
    lines = [*_render_own_jobs([job] if job else []), *(_render_held_task(row) for row in held)]
    if not lines:
        return ""
    end = "If you stop because a person must decide, say so and stop; deepwork keeps the state."
    return cut_to_budget("\n".join(["Before you stop: this work is not finished in deepwork.", *lines, end]))


def judge_held_task(row: Row) -> Standing:
    """Judge a task that the agent holds, by the rules of every interface; its hook shows that it is alive."""
    # Imported here, as for job sessions: most sessions hold nothing.
    from deepwork.views.overview.states import work_rules as rules  # noqa: PLC0415
    from deepwork.work.plans.models import PlanStatus, TaskStatus  # noqa: PLC0415

    try:
        plan = rules.PlanFacts(row["workflow_id"], PlanStatus(row["plan_status"]))
        task = rules.TaskFacts(row["id"], TaskStatus(row["status"]), plan, is_claimed=True)
    except ValueError:  # a status of another version
        return RUNNING
    return rules.judge_task(task._replace(waits_for=row["waits_for"], approval_id=row["approval_id"]))


def judge_job(row: Row) -> Standing:
    """Judge a job session that the agent works on, by the rules of every interface."""
    from deepwork.views.overview.session_rows import SessionRow  # noqa: PLC0415
    from deepwork.views.overview.states import work_rules as rules  # noqa: PLC0415

    data = {"entries": [], "step_progress": {}} | parse_session_data(row)
    name = f"{row['job_name']}/{row['workflow_name']}"
    session = SessionRow(row["id"], name, row["goal"], row["status"], row["step_id"], data, updated_at=0)
    waits = session.person_reason is not None
    return rules.judge_session(rules.SessionFacts(session, row["approval_id"], waits_for_person=waits))


def parse_session_data(row: Row) -> dict[str, Any]:
    """Parse the JSON data of a job session row."""
    data = json.loads(row["data"])
    return data if isinstance(data, dict) else {}


def _render_identity(work: CurrentWork) -> Iterator[str]:
    if work.agents:
        yield f"You are agent {_format_agents(work.agents)}: use that id, do not register again."
    if work.possible_agents:
        tasks = [f"{show_id(row['id'])} {quote_line(row['name'], 60)}" for row in work.possibly_held]
        holding = f" and holds {', '.join(tasks)}" if tasks else ""
        yield (
            "If this is the conversation that acted as agent"
            f" {_format_agents(work.possible_agents)}{holding}, keep that id;"
            " otherwise register: another session may be using it."
        )


def _format_agents(agents: dict[str, str]) -> str:
    return ", ".join(f"{quote_line(name, 60)} ({show_id(id)})" for id, name in agents.items())


def _render_own_jobs(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        data, standing = parse_session_data(row), judge_job(row)
        progress = (data.get("step_progress") or {}).get(row["step_id"]) or {}
        waits = "its review sent it back: fix it" if progress.get("quality_attempts") else "do it"
        if not standing.goes_on:
            waits = _describe_standstill(standing, row["approval_id"])
        decided = "".join(f". {line}" for line in _list_decisions(data))
        named = f"session_id={quote_line(row['id'])}"
        yield (
            f"Job session {_format_job_position(row, data)}; {waits}, then"
            f" call finished_step({named}). get_session({named}) returns the instructions and outputs."
            f" Goal: {quote_line(row['goal'])}{decided}"
        )


_DECISION_WORDS = {
    "passed": "let it pass",
    "sent_back": "sent it back",
    "round_granted": "granted one more review",
}


def _list_decisions(data: dict[str, Any]) -> Iterator[str]:
    """Name what people decided since the agent last continued the session."""
    for each in data.get("decisions") or ():
        if not each.get("is_seen"):
            what = _DECISION_WORDS.get(each.get("decision"), "decided")
            text = f": {quote_line(each['text'])}" if each.get("text") else ""
            yield f"Step {quote_line(each.get('step_id'))}: {quote_line(each.get('by'))} {what}{text}"


def _render_other_jobs(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        data = parse_session_data(row)
        yield (
            "Open here, perhaps in another session: job session"
            f" {_format_job_position(row, data)}."
            " Continue it only if you are asked to:"
            f" get_session(session_id={quote_line(row['id'])}) returns the instructions."
            f" Goal: {quote_line(row['goal'])}"
        )


def _format_job_position(row: Row, data: dict[str, Any]) -> str:
    """Format a job session's id, workflow and current step."""
    job = quote_line(f"{row['job_name']}/{row['workflow_name']}")
    step = f"{show_id(row['id'])}, {job}: at step {quote_line(row['step_id'])}"
    if isinstance(entries := data.get("entries"), list):
        step += f" ({int(data.get('current_entry_index') or 0) + 1} of {len(entries)})"
    return step


def _render_held_tasks(work: CurrentWork) -> Iterator[str]:
    for place, row in enumerate(work.held):
        yield _render_held_task(row)
        if place == 0 and work.context is not None:
            yield from _render_last_claim(work.context["current_task"].get("last_claim"))
            yield f"  Its context: {quote_value(work.context)}"


def _render_held_task(row: Row) -> str:
    standing = judge_held_task(row)
    begin = "" if row["status"] in ("in_progress", "paused") else ', set it to "in_progress"'
    held = (
        f"You hold task {show_id(row['id'])} {quote_line(row['name'], 100)} ({standing.state})"
        f" of plan {quote_line(row['plan_name'], 100)} ({show_id(row['workflow_id'])}),"
        f" claim_epoch {row['epoch']}: "
    )
    if not standing.goes_on:
        return f"{held}{_describe_standstill(standing, row['approval_id'])}, or give it up with task_release."
    return (
        f"{held}continue it{_format_place(row)}{begin},"
        " record progress with checkpoint_add, finish it with task_update_status,"
        f" or give it up with task_release.{_format_checks(row)}"
    )


def _describe_standstill(standing: Standing, approval_id: str | None) -> str:
    """Describe why the agent cannot continue, and what to do instead; details may be foreign text."""
    if standing.state is State.STOPPED:
        return f"it is {standing.state} ({standing.cause}): stop work on it"
    about = show_id(approval_id) if approval_id else standing.cause
    return f"a person decides about it ({about}): wait for the notice"


def _format_checks(row: Row) -> str:
    """Name the checks that a held task has not passed yet: it is not completed before."""
    texts = [row["plan_requirements"], row["requirements"]]
    named = [name for text in texts if text for name in json.loads(text).get("checks", ())]
    shown = [quote_line(str(name), 60) for name in dict.fromkeys(named)]
    more = f" and {len(shown) - _MAX_CHECKS} more" if len(shown) > _MAX_CHECKS else ""
    return f" Its checks have not passed yet: {', '.join(shown[:_MAX_CHECKS])}{more}." if shown else ""


def _format_place(row: Row) -> str:
    if not row["workspace_path"]:
        return ""
    return f" in {quote(row['workspace_path'], _MAX_PATH_LENGTH)} on branch {quote_line(row['branch'])}"


def _render_last_claim(ended: dict[str, Any] | None) -> Iterator[str]:
    """Render why the holder before let go of the task."""
    if not ended:
        return
    who = ended.get("agent_name") or ended.get("agent_id") or "another agent"
    reason = f": {quote_line(ended['reason'])}" if ended.get("reason") else ""
    yield f"  Before you, {quote_line(who, 60)} {_describe_end(ended)}{reason}."


def _describe_end(ended: dict[str, Any]) -> str:
    how, by = ended.get("ended"), ended.get("by")
    if how == "expired":
        return "went silent and lost it"
    if how == "failed":
        return "reported that it failed"
    if by and by == ended.get("agent_id"):
        return "released it"
    return "had it until it was released" + (f" by {quote_line(by)}" if by else "")


def _render_tracked_workflows(work: CurrentWork) -> Iterator[str]:
    for row in work.tracked:
        tasks = [task for task in work.tracked_tasks if task["workflow_id"] == row["id"]]
        named = "; ".join(
            f"{show_id(task['id'])} {quote_line(task['name'], 60)}"
            + (f" by {quote_line(task['agent_name'], 40)}" if task["agent_name"] else "")
            for task in tasks
        )
        parts = 'include=["tasks","decisions","blockers"]'
        yield (
            f"Tracked workflow {show_id(row['id'])} {quote_line(row['name'], 100)}:"
            f" phase {row['current_phase']} of {row['total_phases']},"
            f" changed {format_age(row['updated_at'], work.now)};"
            f" {'open tasks: ' + named if named else 'no open tasks'}."
            f" get_context(workflow_id={quote_line(row['id'])}, {parts}) returns the rest."
        )


def _render_plans(work: CurrentWork) -> Iterator[str]:
    """Render open plans, except those whose held tasks were rendered before."""
    mine = {row["workflow_id"] for row in work.held}
    for row in work.plans:
        if row["id"] not in mine:
            yield (
                f"Plan {show_id(row['id'])} {quote_line(row['name'], 100)}: {_format_count(row['done'])} of"
                f" {_format_count(row['total'])} tasks done,"
                f" changed {format_age(row['updated_at'], work.now)}."
                f" workflow_next_tasks(workflow_id={quote_line(row['id'])}) lists the tasks to claim."
            )


def _format_count(number: int) -> str:
    return str(number) if number <= MOST_COUNTED else f"over {MOST_COUNTED}"


def _render_unread(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        urgent = f", {row['urgent']} urgent" if row["urgent"] else ""
        yield f"{row['waiting']} unread messages{urgent}: message_list(agent_id={quote_line(row['id'])})."
