"""Job sessions as the store has them: their steps, and how far each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_ACTIVE_SESSIONS = 200
RUNNING_STATUSES = ("in_progress", "needs_work")
"""Statuses of steps that an agent works on."""


@dataclass(frozen=True)
class SessionRow:
    """A session, parsed from its row."""

    id: str
    name: str
    goal: str
    status: str
    step_id: str
    data: Mapping[str, Any]
    updated_at: int
    created_seq: int = 0

    @property
    def entries(self) -> list[list[str]]:
        """The step ids of each entry; steps of one entry run concurrently."""
        return [list(entry["steps"]) for entry in self.data["entries"]]

    @property
    def steps(self) -> list[str]:
        return [step for entry in self.entries for step in entry]

    @property
    def is_at_gate(self) -> bool:
        """Whether the current step was submitted and did not pass yet: a person can decide about it."""
        return (
            self.status == "active" and self.get_progress(self.step_id).get("submitted_outputs") is not None
        )

    @property
    def person_reason(self) -> str | None:
        """Why only a person can decide about the current step; None if work on it goes on."""
        reason: str | None = self.get_progress(self.step_id).get("person_reason")
        return reason if self.is_at_gate else None

    @property
    def waits_for_agent(self) -> bool:
        """Whether a person granted the current step a review that has not begun."""
        decided = [each for each in self.data.get("decisions", ()) if each["step_id"] == self.step_id]
        attempts = self.get_progress(self.step_id).get("quality_attempts")
        return (
            bool(decided)
            and decided[-1]["decision"] == "round_granted"
            and decided[-1]["attempts"] == attempts
        )

    @property
    def sent_back_at(self) -> str:
        """When a person last sent the current step back, which begins it again; empty if never."""
        decided = [each for each in self.data.get("decisions", ()) if each["step_id"] == self.step_id]
        return max((each["at"] for each in decided if each["decision"] == "sent_back"), default="")

    @property
    def has_failed_self_review(self) -> bool:
        """Whether the agent's last own review of the current step, since it began, failed."""
        began = max(self.sent_back_at, self.get_progress(self.step_id).get("started_at") or "")
        made = [each for each in self.data.get("self_reviews", ()) if each["step_id"] == self.step_id]
        return bool(made) and made[-1]["at"] >= began and not made[-1]["passed"]

    def get_progress(self, step: str) -> Mapping[str, Any]:
        progress: Mapping[str, Any] = self.data["step_progress"].get(step, {})
        return progress

    def get_step_status(self, step: str) -> str:
        """Return the status of a step; `needs_work` if it failed its review."""
        progress = self.get_progress(step)
        if progress.get("completed_at"):
            return "completed"
        has_started = step in self.entries[self.data.get("current_entry_index", 0)] or progress.get(
            "started_at"
        )
        if not has_started:
            return "pending"
        if self.status != "active":
            return self.status
        return "needs_work" if progress.get("quality_attempts") else "in_progress"
