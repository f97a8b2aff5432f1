"""Commands that set one status of a task."""

from __future__ import annotations

from deepwork.kernel.operations import Preset

TASK_PRESETS = {
    "start": Preset(
        "update-status",
        {"status": "in_progress"},
        "Start a task, or resume a paused one.",
        without=frozenset({"outcome", "outcome_detail", "error"}),
        reports_work=True,
    ),
    "done": Preset(
        "update-status",
        {"status": "completed"},
        "Report that a task is done, and its outcome.",
        without=frozenset({"error"}),
        reports_work=True,
    ),
    "fail": Preset(
        "update-status",
        {"status": "failed"},
        "Report that a task failed, and why; it can be retried.",
        without=frozenset({"outcome"}),
        reports_work=True,
    ),
    "retry": Preset(
        "update-status",
        {"status": "pending"},
        "Let a failed task be tried again, or open a completed one again; acts as a person.",
        without=frozenset({"outcome_detail", "error", "agent_id", "claim_epoch"}),
        as_person=True,
    ),
    "skip": Preset(
        "update-status",
        {"status": "skipped"},
        "Skip a task; tasks that wait for it can start.",
        without=frozenset({"error"}),
    ),
}
