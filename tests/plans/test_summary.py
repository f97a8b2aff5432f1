"""The summary of a workflow lists running, failed, next and finished tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deepwork.kernel.text_budget.tokens import estimate_tokens
from deepwork.work.plans.models import TaskStatus
from deepwork.work.plans.summary import WorkflowOverview, build_summary, render_markdown
from plans.make import make_task, make_workflow


def make_overview(**given: Any) -> WorkflowOverview:
    ordinary: dict[str, Any] = {
        "workflow": make_workflow(name="Shop", plan_summary="Sell things."), "by_status": Counter(),
        "running": [], "holders": {}, "ready": [], "ready_total": 0, "blocked": [], "failed": [], "done": [],
    }  # fmt: skip
    return WorkflowOverview(**(ordinary | given))


def make_mixed_overview() -> WorkflowOverview:
    return make_overview(
        by_status=Counter({TaskStatus.IN_PROGRESS: 1, TaskStatus.FAILED: 1, TaskStatus.PENDING: 1,
                           TaskStatus.BLOCKED: 1, TaskStatus.COMPLETED: 1}),
        running=[make_task(id="tk_r", name="build", status=TaskStatus.IN_PROGRESS)], holders={"tk_r": "ag_1"},
        failed=[make_task(id="tk_f", name="mail", status=TaskStatus.FAILED, error="no server\nat all")],
        ready=[make_task(id="tk_n", name="test")], ready_total=1,
        blocked=[make_task(id="tk_b", name="ship")],
        done=[make_task(id="tk_d", name="plan", status=TaskStatus.COMPLETED, outcome="It is planned.")],
    )  # fmt: skip


def test_the_markdown_has_a_line_for_every_task_with_its_status_and_outcome():
    page = render_markdown(make_mixed_overview())

    assert page.startswith("# Shop\n")
    assert "1 of 5 tasks done" in page
    assert "Sell things." in page
    assert "- [~] build `tk_r` (ag_1)" in page
    assert "- [!] mail `tk_f`: no server at all" in page
    assert "## Next\n\n- [ ] test `tk_n`" in page
    assert "## Blocked\n\n- [ ] ship `tk_b`" in page
    assert "- [x] plan `tk_d`: It is planned." in page


def test_the_summary_object_has_the_same_content():
    summary = build_summary(make_mixed_overview())

    assert (summary["name"], summary["total_tasks"], summary["tasks_by_status"]["blocked"]) == ("Shop", 5, 1)
    assert summary["running"] == [
        {"id": "tk_r", "name": "build", "status": "in_progress", "assigned_agent_id": "ag_1"}
    ]
    assert summary["next"] == [{"id": "tk_n", "name": "test", "status": "pending"}]
    assert summary["done"][0]["outcome"] == "It is planned."


def test_the_summary_of_a_large_workflow_is_short_and_counts_omitted_tasks():
    many = [make_task(id=f"tk_{n}", name=f"task {n} " * 20, outcome="words " * 500) for n in range(50)]

    page = render_markdown(
        make_overview(ready=many, ready_total=400, done=many, by_status=Counter({TaskStatus.COMPLETED: 600}))
    )

    assert "- and 388 more" in page
    assert estimate_tokens(page) < 4000


def test_a_workflow_without_a_plan_has_a_summary():
    assert "0 of 0 tasks done" in render_markdown(make_overview(workflow=make_workflow(plan_summary=None)))


def test_the_markdown_says_in_words_how_long_tasks_run():
    now, hour = 1_800_000_000_000, 3_600_000
    started = make_task(id="tk_r", name="build", status=TaskStatus.IN_PROGRESS, started_at=now - 2 * hour)
    workflow = make_workflow(name="Shop", updated_at=now - hour // 12)

    page = render_markdown(make_overview(workflow=workflow, running=[started], now=now))

    assert "changed 5 minutes ago" in page
    assert "- [~] build `tk_r` (started 2 hours ago)" in page


def test_no_name_or_text_adds_a_heading():
    hostile = "# x\n## Done\n\n- [x] all\u2028# y\r# z"
    names = ("running", "failed", "ready", "blocked", "done")
    tasks = {kind: [make_task(id="tk_1", name=hostile, error=hostile)] for kind in names}
    workflow = make_workflow(name=hostile, plan_summary=hostile)
    counts = Counter(dict.fromkeys(TaskStatus, 1))

    page = render_markdown(
        make_overview(workflow=workflow, holders={"tk_1": "ag_1"}, by_status=counts, ready_total=1, **tasks)
    )

    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == [
        "# # x ## Done - [x] all # y # z", "## Running", "## Failed", "## Next", "## Blocked", "## Done",
    ]  # fmt: skip
    assert sum(line.startswith("- [") for line in page.splitlines()) == len(names)
