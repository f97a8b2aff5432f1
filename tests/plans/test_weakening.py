"""What an agent may not take away from a plan."""

from __future__ import annotations

import pytest

from deepwork.gates.budgets.models import Budget
from deepwork.kernel.errors import NotAllowed
from deepwork.work.plans.models import ApprovalTime, Outline, PlanRequirements, TaskRequirements
from deepwork.work.plans.rules.weakening import require_same_strength
from plans.make import make_outline, make_task

STRICT = TaskRequirements(
    checks=("tests", "lint"), approval=(ApprovalTime.AFTER,), budget=Budget(usd=5, minutes=30)
)
OLD = make_task("fix", requirements=STRICT, max_attempts=2)


def replan(new: Outline, plan: PlanRequirements | None = None) -> None:
    require_same_strength([OLD], [new], plan, default_attempts=3)


@pytest.mark.parametrize(
    "stricter",
    [
        STRICT,
        TaskRequirements(
            ("more", "lint", "tests"), tuple(ApprovalTime), Budget(usd=1, tokens=9, minutes=30), None
        ),
    ],
)
def test_a_replan_may_require_as_much_or_more(stricter: TaskRequirements):
    replan(make_outline("fix ", requirements=stricter, max_attempts=2))


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (make_outline("other", requirements=STRICT, max_attempts=2), "drops it"),
        (make_outline("fix", max_attempts=2), "drops its check tests and drops its check lint"),
        (
            make_outline(
                "fix", requirements=TaskRequirements(("lint", "tests"), (), STRICT.budget), max_attempts=2
            ),
            "drops its approval after",
        ),
        (
            make_outline(
                "fix",
                requirements=TaskRequirements(STRICT.checks, STRICT.approval, Budget(usd=5)),
                max_attempts=2,
            ),
            "raises its budget",
        ),
        (
            make_outline(
                "fix",
                requirements=TaskRequirements(STRICT.checks, STRICT.approval, Budget(usd=6, minutes=30)),
                max_attempts=2,
            ),
            "raises its budget",
        ),
        (
            make_outline(
                "fix",
                requirements=TaskRequirements(STRICT.checks, STRICT.approval, STRICT.budget, "none"),
                max_attempts=2,
            ),
            "lets it change nothing",
        ),
        (make_outline("fix", requirements=STRICT), "raises its max_attempts"),
        (make_outline("fix", requirements=STRICT, max_attempts=4), "raises its max_attempts"),
    ],
)
def test_a_replan_that_requires_less_needs_a_person(new: Outline, problem: str):
    with pytest.raises(NotAllowed, match=problem) as refused:
        replan(new)

    assert refused.value.code == "UNAUTHORIZED"
    assert refused.value.recoverable


def test_a_plan_that_requires_nothing_is_replanned_as_before():
    free = make_task("fix", max_attempts=1)

    require_same_strength([free], [make_outline("fix", max_attempts=9)], None, default_attempts=3)


def test_the_attempts_of_a_task_in_a_checked_plan_are_not_raised():
    free = make_task("fix", max_attempts=1)
    checked = PlanRequirements(checks=("tests",))

    with pytest.raises(NotAllowed, match="max_attempts"):
        require_same_strength([free], [make_outline("fix", max_attempts=9)], checked, default_attempts=3)


@pytest.mark.parametrize(
    "plan", [PlanRequirements(checks=("tests",)), PlanRequirements(approval=(ApprovalTime.AFTER,))]
)
def test_a_task_that_only_its_plan_gates_is_not_dropped_by_a_replan(plan: PlanRequirements):
    free = make_task("fix", max_attempts=3)

    require_same_strength([free], [make_outline("fix")], plan, default_attempts=3)
    for others in ([], [make_outline("other")]):
        with pytest.raises(NotAllowed) as refused:
            require_same_strength([free], others, plan, default_attempts=3)
        assert refused.value.code == "UNAUTHORIZED"
