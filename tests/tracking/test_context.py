"""The state of a workflow of any kind, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import NOW, Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code
from deepwork.kernel.values import format_timestamp
from jobs import runs
from jobs.project import make_step, write_files, write_job
from tracking.make import (
    complete_task,
    create_blocker,
    create_phase,
    create_task,
    create_workflow,
    create_workflow_and_phase,
    expect_error,
    get_context,
)
from workspaces.make import create_plan

ALL = ("phase_summary", "tasks", "decisions", "milestones", "blockers")
DECISION = {"category": "other", "question": "q", "chosen": "c", "reasoning": "r"}


def log_decision(app: Application, task_id: str, question: str = "q") -> str:
    id: str = call_tool(app, "log_decision", task_id=task_id, **(DECISION | {"question": question}))[
        "decision_id"
    ]
    return id


def get_task_names(shown: dict[str, Any]) -> list[str]:
    return [each["name"] for each in shown["tasks"]]


def get_questions(shown: dict[str, Any]) -> list[str]:
    return [each["question"] for each in shown["decisions"]]


@pytest.mark.usefixtures("project")
class TestHeader:
    def test_without_sections_only_the_header_is_returned(self, app: Application):
        id, _ = create_workflow_and_phase(app)

        assert get_context(app, id) == {
            "workflow_id": id, "workflow_name": "Release", "workflow_status": "in_progress",
            "current_phase": 1, "total_phases": 3, "objective": "Ship it.", "profile": "standard",
        }  # fmt: skip

    def test_all_sections_of_a_new_workflow_are_empty(self, app: Application):
        shown = get_context(app, create_workflow(app), *ALL)

        assert {part: shown[part] for part in ALL} == {part: [] for part in ALL}
        assert {shown[f"{part}_count"] for part in ALL if part != "phase_summary"} == {0}
        assert shown["has_blockers"] is False
        assert "filters_applied" not in shown

    @pytest.mark.parametrize("part", ALL)
    def test_only_requested_sections_are_returned(self, app: Application, part: str):
        shown = get_context(app, create_workflow_and_phase(app)[0], part, part)

        assert part in shown
        assert not set(ALL) - {part} & set(shown)

    @pytest.mark.parametrize("include", [["everything"], "tasks", None, [1]])
    def test_unknown_sections_are_refused(self, app: Application, include: Any):
        error = expect_error(app, "get_context", workflow_id=create_workflow(app), include=include)

        assert error.code is Code.INVALID_INPUT
        assert "include" in error.message

    @pytest.mark.parametrize("id", ["tw_0", "wf_0", "nobody00", "x" * 200])
    def test_an_unknown_workflow_is_refused(self, app: Application, id: str):
        assert expect_error(app, "get_context", workflow_id=id, include=[]).code is Code.WORKFLOW_NOT_FOUND


@pytest.mark.usefixtures("project")
class TestPhaseSummary:
    def test_a_phase_is_counted_and_timed(self, app: Application, clock: Clock):
        id = create_workflow(app)
        call_tool(
            app, "start_phase", workflow_id=id, number=1, name="Design", description="d", is_parallel=True
        )
        one = get_context(app, id, "phase_summary")["phase_summary"][0]["phase_id"]
        for ending in ("success", "partial_success", "failed"):
            made = create_task(app, (id, one))
            clock.advance(seconds=10)
            complete_task(app, made, ending)
        create_task(app, (id, one))
        clock.advance(seconds=15)

        [shown] = get_context(app, id, "phase_summary")["phase_summary"]

        assert shown == {
            "phase_number": 1, "phase_name": "Design", "phase_id": one, "status": "in_progress",
            "is_parallel": True, "description": "d",
            "tasks": {"total": 4, "completed": 2, "failed": 1, "in_progress": 1},
            "duration_seconds": 45, "task_seconds": 30, "started_at": format_timestamp(NOW), "completed_at": None,
        }  # fmt: skip

    def test_the_duration_of_a_completed_phase_does_not_change(self, app: Application, clock: Clock):
        id, one = create_workflow_and_phase(app)
        clock.advance(seconds=5)
        call_tool(app, "complete_phase", phase_id=one, status="completed", summary="s")
        clock.advance(seconds=60)

        [shown] = get_context(app, id, "phase_summary")["phase_summary"]

        assert (shown["duration_seconds"], shown["completed_at"]) == (5, format_timestamp(NOW + 5000))
        assert (shown["status"], shown["summary"]) == ("completed", "s")


@pytest.mark.usefixtures("project")
class TestFilters:
    @pytest.fixture
    def busy(self, app: Application, clock: Clock) -> str:
        """Two phases, two agents, ten seconds apart, each with notes of its own."""
        id = create_workflow(app)
        for number, agent in ((1, "Ada"), (2, "Grace")):
            made = create_task(app, (id, create_phase(app, id, number)), f"task {number}", agent_name=agent)
            log_decision(app, made, f"question {number}")
            call_tool(app, "log_milestone", task_id=made, message=f"milestone {number}")
            create_blocker(app, made, f"blocker {number}")
            clock.advance(seconds=10)
        return id

    @pytest.mark.parametrize(
        ("filter", "number"),
        [
            ({"phase": 1}, 1),
            ({"phase": 2}, 2),
            ({"agent": "Ada"}, 1),
            ({"agent": "Grace", "phase": 2}, 2),
            ({"since": format_timestamp(NOW + 10_000)}, 2),
        ],
    )
    def test_every_section_is_filtered(
        self, app: Application, busy: str, filter: dict[str, Any], number: int
    ):
        shown = get_context(app, busy, *ALL, filter=filter)

        assert get_task_names(shown) == [f"task {number}"]
        assert get_questions(shown) == [f"question {number}"]
        assert [each["message"] for each in shown["milestones"]] == [f"milestone {number}"]
        assert [each["description"] for each in shown["blockers"]] == [f"blocker {number}"]
        assert {shown[f"{part}_count"] for part in ALL if part != "phase_summary"} == {1}
        assert shown["filters_applied"] == {"phase": None, "agent": None, "since": None} | filter
        phases = [each["phase_number"] for each in shown["phase_summary"]]
        assert phases == ([filter["phase"]] if "phase" in filter else [1, 2])

    def test_filters_are_combined(self, app: Application, busy: str):
        assert get_task_names(get_context(app, busy, "tasks", filter={"phase": 1, "agent": "Grace"})) == []

    def test_the_agent_filter_matches_exactly(self, app: Application, busy: str):
        assert get_task_names(get_context(app, busy, "tasks", filter={"agent": "ada"})) == []

    def test_a_new_note_on_an_older_task_passes_the_since_filter(self, app: Application, clock: Clock):
        where = create_workflow_and_phase(app)
        old = create_task(app, where)
        clock.advance(seconds=60)
        log_decision(app, old, "late")

        shown = get_context(
            app, where[0], "tasks", "decisions", filter={"since": format_timestamp(clock.now)}
        )

        assert get_task_names(shown) == ["build"]
        assert get_questions(shown) == ["late"]

    def test_a_task_that_ended_later_passes_the_since_filter(self, app: Application, clock: Clock):
        where = create_workflow_and_phase(app)
        old = create_task(app, where)
        clock.advance(seconds=60)
        complete_task(app, old)

        assert get_task_names(
            get_context(app, where[0], "tasks", filter={"since": format_timestamp(clock.now)})
        ) == ["build"]
        assert (
            get_task_names(
                get_context(app, where[0], "tasks", filter={"since": format_timestamp(clock.now + 1)})
            )
            == []
        )

    @pytest.mark.parametrize(
        "since",
        ["2027-01-15T08:00:00Z", "2027-01-15T08:00:00", "2027-01-15T09:00:00+01:00", "2027-01-15 08:00"],
    )
    def test_a_time_may_be_given_in_several_formats(self, app: Application, busy: str, since: str):
        shown = get_context(app, busy, filter={"since": since})

        assert shown["filters_applied"]["since"] == "2027-01-15T08:00:00.000Z"

    def test_milliseconds_of_the_since_filter_are_kept(self, app: Application, busy: str):
        for ms in range(1000):
            at = format_timestamp(NOW + ms)
            assert get_context(app, busy, filter={"since": at})["filters_applied"]["since"] == at

    @pytest.mark.parametrize(
        "filter",
        [
            {"since": "yesterday"},
            {"since": ""},
            {"since": "2027-13-01T00:00:00Z"},
            {"since": "9999-12-31T23:59:59-14:00"},
            {"phase": 0},
            {"phase": "one"},
            {"agent": ""},
            {"until": "2027-01-01"},
        ],
    )
    def test_an_invalid_filter_is_refused(self, app: Application, busy: str, filter: dict[str, Any]):
        error = expect_error(app, "get_context", workflow_id=busy, include=["tasks"], filter=filter)

        assert error.code is Code.INVALID_INPUT
        assert next(iter(filter)) in error.message

    def test_filtering_by_a_missing_phase_is_a_warning(self, app: Application, busy: str):
        shown = get_context(app, busy, *ALL, filter={"phase": 7})

        assert shown["warning"] == "There is no phase 7 yet."
        assert {part: shown[part] for part in ALL} == {part: [] for part in ALL}
        assert shown["current_phase"] == 2


@pytest.mark.usefixtures("project")
class TestLimits:
    @pytest.fixture
    def large(self, app: Application, clock: Clock) -> str:
        """Five tasks, some of one moment, with a decision each."""
        where = create_workflow_and_phase(app)
        for number in range(5):
            log_decision(app, create_task(app, where, str(number)), str(number))
            clock.advance(seconds=number % 2)
        return where[0]

    def test_lists_are_truncated_and_counted(self, app: Application, large: str):
        shown = get_context(app, large, "tasks", "decisions", limit=2)

        assert (len(shown["tasks"]), shown["tasks_count"]) == (2, 5)
        assert (len(shown["decisions"]), shown["decisions_count"]) == (2, 5)
        assert shown["truncated"] == ["tasks", "decisions"]

    def test_the_cursor_pages_through_every_item_once(self, app: Application, large: str):
        whole = get_context(app, large, "tasks", "decisions")
        seen: dict[str, list[Any]] = {"tasks": [], "decisions": []}
        given: dict[str, Any] = {}
        for _ in range(3):
            shown = get_context(app, large, "phase_summary", "tasks", "decisions", limit=2, **given)
            for part in seen:
                seen[part] += shown[part]
            given = {"cursor": shown.get("cursor")}

        assert seen == {"tasks": whole["tasks"], "decisions": whole["decisions"]}
        assert given["cursor"] is None
        assert "truncated" not in whole

    def test_tasks_are_listed_in_order_and_notes_newest_first(self, app: Application, clock: Clock):
        where = create_workflow_and_phase(app)
        for name in "abc":
            log_decision(app, create_task(app, where, name), name)
            clock.advance(seconds=1)

        shown = get_context(app, where[0], "tasks", "decisions")

        assert get_task_names(shown) == ["a", "b", "c"]
        assert get_questions(shown) == ["c", "b", "a"]

    def test_fifty_items_of_each_section_are_returned_by_default(self, app: Application):
        where = create_workflow_and_phase(app)
        made = create_task(app, where)
        for number in range(51):
            log_decision(app, made, str(number))

        shown = get_context(app, where[0], "decisions")
        more = get_context(app, where[0], "decisions", limit=500)

        assert (len(shown["decisions"]), shown["decisions_count"]) == (50, 51)
        assert len(more["decisions"]) == 51

    @pytest.mark.parametrize("limit", [0, 501, -1])
    def test_an_invalid_limit_is_refused(self, app: Application, large: str, limit: int):
        assert (
            expect_error(app, "get_context", workflow_id=large, include=["tasks"], limit=limit).code
            is Code.INVALID_INPUT
        )

    @pytest.mark.parametrize(
        "cursor", ["", "x", "tasks:one:tt", "tasks:1", "tasks:99999999999999999999:tt_0"]
    )
    def test_a_forged_cursor_is_refused(self, app: Application, large: str, cursor: str):
        error = expect_error(app, "get_context", workflow_id=large, include=["tasks"], cursor=cursor)

        assert error.code is Code.INVALID_INPUT
        assert "cursor" in error.message


class TestPlans:
    @pytest.fixture
    def planned(self, app: Application) -> tuple[str, dict[str, str]]:
        """Two levels: build and test, then ship."""
        id, _ = create_plan(app)
        tasks = [
            {"name": "build", "description": "Build it.", "sequence": 1, "parallel_group": "g"},
            {"name": "test", "description": "Test it.", "sequence": 1, "parallel_group": "g"},
            {"name": "ship", "description": "Ship it.", "sequence": 2},
        ]
        call_tool(app, "workflow_set_plan", id=id, plan={"summary": "The plan.", "tasks": tasks})
        lines = call_tool(app, "workflow_get", id=id, include_tasks=True)["tasks"]
        return id, {line["name"]: line["id"] for line in lines}

    def test_the_context_of_a_plan_has_the_same_structure(
        self, app: Application, clock: Clock, planned: tuple[str, dict[str, str]]
    ):
        id, tasks = planned
        call_tool(app, "task_update_status", id=tasks["build"], status="in_progress")
        clock.advance(seconds=20)
        call_tool(app, "task_update_status", id=tasks["build"], status="completed", outcome="Built.")

        shown = get_context(app, id, "phase_summary", "tasks")

        assert (shown["workflow_name"], shown["workflow_status"]) == ("Release", "in_progress")
        assert (shown["total_phases"], shown["summary"], shown["objective"]) == (2, "The plan.", "Ship it.")
        assert [
            (each["phase_number"], each["phase_id"], each["status"], each["is_parallel"], each["tasks"])
            for each in shown["phase_summary"]
        ] == [
            (1, None, "in_progress", True, {"total": 2, "completed": 1, "failed": 0, "in_progress": 0}),
            (2, None, "pending", False, {"total": 1, "completed": 0, "failed": 0, "in_progress": 0}),
        ]
        done = shown["tasks"][0]
        assert (done["id"], done["status"], done["summary"]) == (tasks["build"], "completed", "Built.")
        assert (done["goal"], done["duration_seconds"], done["agent_name"]) == ("Build it.", 20, None)

    def test_the_levels_of_a_plan_are_its_phases(self, app: Application, planned: tuple[str, dict[str, str]]):
        id, tasks = planned
        log_decision(app, tasks["build"], "how")
        log_decision(app, tasks["ship"], "where")

        shown = get_context(app, id, "phase_summary", "tasks", "decisions", filter={"phase": 2})

        assert get_task_names(shown) == ["ship"]
        assert get_questions(shown) == ["where"]
        assert [each["phase_number"] for each in shown["phase_summary"]] == [2]
        assert get_context(app, id, "tasks", filter={"phase": 5})["warning"] == "There is no level 5."

    def test_the_holder_of_a_planned_task_is_its_agent(
        self, app: Application, planned: tuple[str, dict[str, str]]
    ):
        id, tasks = planned
        agent = call_tool(app, "agent_register", name="Grace", runtime="custom")["id"]
        call_tool(app, "task_claim", task_id=tasks["test"], agent_id=agent)

        shown = get_context(app, id, "tasks", filter={"agent": "Grace"})

        assert [(each["name"], each["agent_name"]) for each in shown["tasks"]] == [("test", "Grace")]

    def test_a_completed_task_names_the_agent_that_did_it(
        self, app: Application, planned: tuple[str, dict[str, str]]
    ):
        id, tasks = planned
        agent = call_tool(app, "agent_register", name="Grace", runtime="custom")["id"]
        name, task = next(iter(tasks.items()))
        call_tool(app, "task_claim", task_id=task, agent_id=agent)
        call_tool(app, "task_update_status", id=task, status="completed", outcome="Done.", agent_id=agent)

        shown = get_context(app, id, "tasks", filter={"agent": "Grace"})["tasks"]

        assert [(each["name"], each["agent_name"]) for each in shown] == [(name, "Grace")]

    def test_the_cursor_pages_through_a_plan(self, app: Application, planned: tuple[str, dict[str, str]]):
        first = get_context(app, planned[0], "tasks", limit=2)
        rest = get_context(app, planned[0], "tasks", limit=2, cursor=first["cursor"])

        assert get_task_names(first) + get_task_names(rest) == ["build", "test", "ship"]
        assert (first["tasks_count"], rest["tasks_count"]) == (3, 3)


class TestJobSessions:
    @pytest.fixture
    def session(self, app: Application, tmp_path: Path) -> str:
        write_files(tmp_path, "a.md", "b.md")
        write_job(tmp_path, "chain", [make_step("a"), make_step("b")])
        id: str = runs.start_job(app)
        runs.finish_step(app, "a.md")
        return id

    def test_the_context_of_a_job_session_has_the_same_structure(self, app: Application, session: str):
        shown = get_context(app, session, *ALL)

        assert (shown["workflow_id"], shown["workflow_name"]) == (session, "chain/main")
        assert (shown["workflow_status"], shown["objective"]) == ("active", "try it")
        assert [(each["id"], each["status"]) for each in shown["tasks"]] == [
            (f"{session}/a", "completed"),
            (f"{session}/b", "in_progress"),
        ]
        assert (shown["tasks_count"], shown["current_phase"], shown["total_phases"]) == (2, 1, 2)

    def test_notes_can_be_added_to_the_steps_of_a_job_session(self, app: Application, session: str):
        log_decision(app, f"{session}/a", "how")
        create_blocker(app, f"{session}/b")
        call_tool(app, "log_milestone", task_id=f"{session}/b", message="m")

        shown = get_context(app, session, "decisions", "blockers", "milestones")

        assert [each["task_id"] for each in shown["decisions"]] == [f"{session}/a"]
        assert shown["decisions"][0]["task_name"] == "chain/main: a"
        assert shown["has_blockers"] is True
        assert shown["milestones_count"] == 1

    def test_a_note_on_an_unknown_step_is_refused(self, app: Application, session: str):
        error = expect_error(app, "log_decision", task_id=f"{session}/z", **DECISION)

        assert error.code is Code.TASK_NOT_FOUND

    def test_filters_that_do_not_apply_to_a_job_session_match_nothing_or_warn(
        self, app: Application, session: str
    ):
        assert "no phases" in get_context(app, session, "tasks", filter={"phase": 1})["warning"]
        assert get_task_names(get_context(app, session, "tasks", filter={"agent": "Ada"})) == []
        assert (
            get_task_names(get_context(app, session, "tasks", filter={"since": "2999-01-01T00:00:00Z"})) == []
        )

    def test_the_cursor_pages_through_a_job_session(self, app: Application, session: str):
        first = get_context(app, session, "tasks", limit=1)
        rest = get_context(app, session, "tasks", limit=1, cursor=first["cursor"])

        assert get_task_names(first) + get_task_names(rest) == ["a", "b"]
        assert "cursor" not in rest


@pytest.mark.usefixtures("project")
class TestTrackedWorkflows:
    def listed(self, app: Application, **given: Any) -> list[str]:
        return [each["name"] for each in call_tool(app, "get_tracked_workflows", **given)["workflows"]]

    def test_workflows_are_listed_newest_first_and_counted(self, app: Application, clock: Clock):
        for name in "abc":
            create_workflow(app, name=name)
            clock.advance(seconds=1)

        assert self.listed(app) == ["c", "b", "a"]
        assert self.listed(app, limit=1, offset=1) == ["b"]
        assert call_tool(app, "get_tracked_workflows", limit=1)["total"] == 3

    def test_workflows_can_be_filtered_by_their_displayed_status(self, app: Application):
        create_workflow(app, name="running")
        stuck = create_workflow(app, name="stuck")
        create_blocker(app, create_task(app, (stuck, create_phase(app, stuck))))
        for status in ("completed", "partial"):
            call_tool(
                app, "complete_workflow", workflow_id=create_workflow(app, name=status), status=status,
                summary="s",
            )  # fmt: skip

        found = {
            status: self.listed(app, status=[status])
            for status in ("in_progress", "blocked", "completed", "failed")
        }

        assert found == {
            "in_progress": ["running"], "blocked": ["stuck"], "completed": ["completed"], "failed": ["partial"],
        }  # fmt: skip
        assert set(self.listed(app, status=["BLOCKED", "in_progress"])) == {"running", "stuck"}

    @pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": 201}, {"offset": -1}, {"status": ["lost"]}])
    def test_invalid_list_parameters_are_refused(self, app: Application, wrong: dict[str, Any]):
        assert expect_error(app, "get_tracked_workflows", **wrong).code is Code.INVALID_INPUT
