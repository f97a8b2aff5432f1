"""Responses of the job tools."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal, TypeVar

from deepwork.kernel.answers import Answer

Value = TypeVar("Value")
Added = Annotated[Value | None, "left out when null"]


class JobAnswer(Answer):
    """An answer about jobs; keeps every key of the first versions, null when unused.

    Keys that were added later are `Added`: a client cannot expect them, so they are left out when null.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kinds = inspect.get_annotations(cls)
        cls.kept_nulls |= {name for name, kind in kinds.items() if not kind.startswith("Added[")}


class StackEntry(JobAnswer):
    workflow: str
    step: str


class WorkflowInfo(JobAnswer):
    name: str
    summary: str


class JobInfo(JobAnswer):
    name: str
    summary: str
    description: str | None
    workflows: list[WorkflowInfo]


class JobLoadError(JobAnswer):
    job_name: str
    job_dir: str
    error: str


class Workflows(JobAnswer):
    jobs: list[JobInfo]
    errors: list[JobLoadError]
    stack: list[StackEntry]


class ExpectedOutput(JobAnswer):
    name: str
    type: str
    description: str
    required: bool
    syntax_for_finished_step_tool: str


class ReviewInfo(JobAnswer):
    run_each: str
    quality_criteria: dict[str, str]
    additional_review_guidance: str | None = None


class StepInput(JobAnswer):
    """An input of a step: an answer from the user, or a file from an earlier step."""

    name: str
    description: str | None = None
    from_step: str | None = None
    paths: list[str] | None = None


class ConcurrentStep(JobAnswer):
    step_id: str
    step_instructions: str
    step_expected_outputs: list[ExpectedOutput]


class DecisionInfo(JobAnswer):
    """What a person decided about a step at its quality gate."""

    step_id: str
    decision: Literal["passed", "sent_back", "round_granted"]
    by: str
    at: str
    text: str | None = None


class ActiveStep(JobAnswer):
    session_id: str
    step_id: str
    job_dir: str
    step_expected_outputs: list[ExpectedOutput]
    step_reviews: list[ReviewInfo]
    step_instructions: str
    common_job_info: str
    step_inputs: list[StepInput]
    concurrent_steps: list[ConcurrentStep] | None = None
    decisions: Added[list[DecisionInfo]] = None
    """What people decided about this step."""
    step_checks: Added[list[str]] = None
    """The checks that must pass before it is done."""
    minutes_left: Added[float] = None
    """How long it may still be worked on; missing if it has no limit."""


class Started(JobAnswer):
    begin_step: ActiveStep
    stack: list[StackEntry]
    branch: str | None = None
    branch_switched: Added[bool] = None
    """Whether the working tree was switched to the branch; missing if there is none."""
    branch_note: Added[str] = None
    """What happened to the working tree and how to go back, or why it was not switched."""


class CriterionAnswer(JobAnswer):
    criterion: str
    passed: bool
    feedback: str | None = None


class FindingAnswer(JobAnswer):
    severity: str
    file: Added[str] = None
    line: Added[int] = None
    claim: str
    failure: Added[str] = None
    effect: Added[str] = None
    """`noted`, `late` or `rejected`: why it does not send the work back; missing if it does."""


class ReviewAnswer(JobAnswer):
    review_run_each: str
    target_file: str | None
    passed: bool
    feedback: str
    criteria_results: list[CriterionAnswer]
    truncated: Added[bool] = None
    """Whether its feedback, or that of a criterion, was cut, or criteria are missing."""
    findings: Added[list[FindingAnswer]] = None


class FinishedStep(JobAnswer):
    status: Literal["needs_work", "next_step", "workflow_complete"]
    feedback: str | None = None
    failed_reviews: list[ReviewAnswer] | None = None
    failed_reviews_count: Added[int] = None
    """How many reviews failed, if the list was cut."""
    begin_step: ActiveStep | None = None
    summary: str | None = None
    all_outputs: dict[str, str | list[str]] | None = None
    stack: list[StackEntry]
    taken_over: bool | None = None
    branch_note: Added[str] = None
    """At the end: on which branch the working tree was left, and how to go back."""
    review: Added[Literal["reviewer", "self_review", "override", "person"]] = None
    """What let the reported step pass; missing if it has no reviews, or did not pass."""
    decisions: Added[list[DecisionInfo]] = None
    """What people decided since the agent last continued the session."""
    findings: Added[list[FindingAnswer]] = None
    """What the reviews of a step that passed found, and what did not keep it from passing."""
    waiting_for: Added[Literal["checks", "approval", "person"]] = None
    """With `needs_work`: what else than the work itself the step waits for."""
    checks: Added[dict[str, str]] = None
    """The verdict of each check that the reported step had to pass."""
    approval: Added[dict[str, Any]] = None
    """What a person has to approve, or refused."""


class WentToStep(FinishedStep):
    cleared_steps: list[str]


class Aborted(JobAnswer):
    aborted_workflow: str
    aborted_step: str
    explanation: str
    stack: list[StackEntry]
    resumed_workflow: str | None = None
    resumed_step: str | None = None
    branch_note: Added[str] = None


class SessionView(JobAnswer):
    session: dict[str, Any]
    begin_step: ActiveStep | None
    stack: list[StackEntry]
    decisions: Added[list[DecisionInfo]] = None


class Decided(JobAnswer):
    """The answer to a person's decision: where the session is now."""

    session_id: str
    step_id: str
    decision: Literal["passed", "sent_back", "round_granted"]
    by: str
    text: str | None = None
    status: Literal["next_step", "needs_work", "workflow_complete"]
    next_step: str | None = None
    """The step that the agent does now; null if the workflow is complete."""
    attempts_left: int | None = None
    """How many reviews the step may still have before they count as failed; null if it passed."""


class SessionLine(JobAnswer):
    """A session in a list."""

    id: str
    workflow: str
    step: str
    status: str
    goal: str
    started: str


class Sessions(JobAnswer):
    sessions: list[SessionLine]


class WholeSession(JobAnswer):
    """All that is stored of a session, except what only its file has."""

    session: dict[str, Any]


class Validation(JobAnswer):
    valid: bool
    problems: list[str]
