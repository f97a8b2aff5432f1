"""Notices to agents: what they say, and which still matter."""

from __future__ import annotations

from deepwork.kernel.call import is_person
from deepwork.kernel.foreign_text import quote_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

DEEPWORK = "deepwork"
"""Tells what no person and no agent did."""


class NoticeType(CaseInsensitiveEnum):
    """What happened."""

    ANSWER = "answer"
    APPROVED = "approved"
    REFUSED = "refused"
    ACKNOWLEDGED = "acknowledged"
    NOTE = "note"
    MESSAGE = "message"
    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    RELEASED = "released"
    STATUS = "status"
    RETRY = "retry"
    REPLANNED = "replanned"
    PASSED = "passed"
    SENT_BACK = "sent_back"
    ROUND_GRANTED = "round_granted"
    LOST = "lost"
    OFFLINE = "offline"


@dataclass(frozen=True)
class Notice:
    """What an agent, or the work on a workflow, must hear of; times in Unix milliseconds."""

    id: str
    type: NoticeType
    at: int
    by_whom: str
    """The person, such as `human:anna`, the agent that sent an urgent message, or `deepwork`."""
    text: str
    agent_id: str | None
    """The agent it is for; None if it is for whoever works on the task, or else on the workflow."""
    workflow_id: str | None
    """The plan, tracked workflow or job session."""
    task_id: str | None
    about: str | None
    """The issue that it answers, or the message."""
    carried_at: int | None = None
    """When the first answer or hook carried it. It is delivered when the agent makes a later call."""
    attempt_id: str | None = None
    """The attempt of a run that it was carried to last, and in which of its starts."""
    start: int | None = None

    @property
    def is_stored(self) -> bool:
        """Whether it is a row. What a hook derives from other rows is true until its cause is gone."""
        return self.id.startswith("nt_")

    @property
    def is_binding(self) -> bool:
        """Whether a person or deepwork says so; what another agent says is for the agent to judge."""
        return self.by_whom == DEEPWORK or is_person(self.by_whom)


MAX_TEXT = 2000
"""Characters of a notice; what it leaves out can be read with a tool."""


def build_answer_text(question: str, answer: str, *, was_asked: bool) -> str:
    """Describe how an issue was resolved; `was_asked` if it waited for a person."""
    begin = "Answer to your question" if was_asked else "Resolved issue"
    return f"{begin} {quote_line(question)}: {answer}"


def build_review_text(task: str, verdict: str, comment: str) -> str:
    """Describe what a person wrote about a task, and their verdict if they gave one."""
    if not verdict:
        return f"On task {quote_line(task)}: {comment}"
    again = f"{_end(comment)} Correct it in a new task." if verdict == "refused" else ""
    return f"Task {quote_line(task)} was {verdict}: {comment}{again}"


def build_approval_text(
    what: str, title: str | None, *, is_given: bool, comment: str | None, next: str
) -> str:
    """Describe that a person approved or refused what an agent asked for, and what to do now."""
    named = f" ({quote_line(title)})" if title else ""
    decided = "approved" if is_given else "refused"
    return f"A person {decided} {what}{named}{_give(comment)} {next}".rstrip()


def build_abandon_text(task: str, reason: str) -> str:
    """Describe that a tracked task was ended."""
    return f"Task {quote_line(task)} was abandoned: {reason}{_end(reason)} Stop work on it."


def build_message_text(message_id: str, sender: str, subject: str | None, body: str) -> str:
    """Describe a message of a person, or an urgent one of an agent."""
    named = f", {quote_line(subject)}" if subject else ""
    return f"Message {message_id} from {sender}{named}: {body}"


def build_lost_text(task: str | None) -> str:
    """Describe that another agent took over a task while its holder was silent."""
    named = f" {quote_line(task, 100)}" if task else ""
    return f"Your claim on task{named} expired and another agent took it. Stop work on it."


OFFLINE_TEXT = "You are offline: you were silent for too long. Your heartbeat brings you back."


def build_plan_text(plan: str, status: str, reason: str | None) -> str:
    """Describe the new status of a plan and what it means for agents that hold its tasks."""
    if status == "in_progress":
        return f"Plan {quote_line(plan)} was resumed{_give(reason)} Continue your task."
    if status == "paused":
        return (
            f"Plan {quote_line(plan)} was paused{_give(reason)} Do not start or continue its tasks: record "
            "what you have with checkpoint_add, report finished work with task_update_status, then stop."
        )
    return f"Plan {quote_line(plan)} was {status}{_give(reason)} Stop work on its tasks."


def build_plan_change_text(plan: str, change: str) -> str:
    """Describe a change of a plan to an agent whose task stays as it is."""
    return f"Plan {quote_line(plan)} was changed{_give(change)} Your task stays; workflow_get shows the plan."


def build_release_text(task: str, reason: str | None) -> str:
    """Describe that an agent no longer holds a task."""
    return (
        f"Your claim on task {quote_line(task)} was released{_give(reason)} Stop work on it, and record what "
        "you did with checkpoint_add."
    )


def build_task_text(task: str, status: str, reason: str | None, *, goes_on: bool) -> str:
    """Describe the new status of a task that an agent holds, or held."""
    return (
        f"Task {quote_line(task)} was set to {status}{_give(reason)}{'' if goes_on else ' Stop work on it.'}"
    )


def build_retry_text(task: str, hint: str | None) -> str:
    """Describe that a failed task is to be tried again."""
    return f"Task {quote_line(task)}, which failed, is to be tried again{_give(hint)} Claim it to continue."


def build_reopened_text(task: str, why: str) -> str:
    """Describe that a completed task is open again."""
    return f"Task {quote_line(task)}, which you completed, is open again{_give(why)} Claim it to correct it."


def build_replan_text(task: str, reason: str) -> str:
    """Describe that the plan of a held task was replaced, which ended the claim."""
    return f"The plan of task {quote_line(task)} was replaced{_give(reason)} Stop, and claim the task again."


def build_gate_text(
    session: str, step: str, decision: str, comment: str | None, next_step: str | None
) -> str:
    """Describe what a person decided about a step of a job at its quality gate."""
    name = f"Step {quote_line(step)} of job session {session}"
    if decision == "passed":
        after = (
            f"Continue with step {quote_line(next_step)}: call get_session."
            if next_step
            else "The job is complete."
        )
        return f"{name} passed its quality gate{_give(comment)} {after}"
    if decision == "sent_back":
        return f"{name} was sent back{_give(comment)} Do it again, then call finished_step."
    return f"{name} may be reviewed once more{_give(comment)} Correct it, then call finished_step."


def build_abort_text(session: str, workflow: str, explanation: str) -> str:
    """Describe that a job session was aborted."""
    return f"Job session {session} ({quote_line(workflow)}) was aborted{_give(explanation)} Stop work on it."


def cut_text(text: str) -> str:
    """Cut a text that is too long for a notice."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _give(reason: str | None) -> str:
    """Add a reason to the end of a sentence, and end it."""
    return f": {reason}{_end(reason)}" if reason else "."


def _end(reason: str) -> str:
    return "" if reason.endswith((".", "!", "?")) else "."
