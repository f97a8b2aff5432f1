"""A task's context always fits its budget and lists what was left out."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from deepwork.kernel.text_budget.tokens import estimate_tokens
from deepwork.work.plans.models import Checkpoint, CheckpointType, RelatedTask, TaskStatus
from deepwork.work.plans.task_context import MIN_TOKENS, ContextOptions, ContextSource, build_context
from effort import measure_effort
from plans.make import make_task, make_workflow

TEXTS = {
    "English": "The shop must take orders. It should never lose one. Every order has lines, each with a price. ",
    "code": "def take(order: Order) -> None:\n    for line in order.lines:\n        prices[line.id] = line.net * 1.19\n",
    "dense JSON": json.dumps([{"id": "9f8a7c6e-11d2", "x": [1, 2.5, None, True], "k": {"q": '\\z"'}}] * 3),
    "Japanese": "これは非常に長い説明です。注文を受け付ける店を作ります。エラーは禁止です。",
}


@cache
def load_tokenizers() -> tuple[Any, Any]:
    return openai.o200k_base(), openai.cl100k_base()


def count_real_tokens(answer: dict[str, Any]) -> list[int]:
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return [len(tokenizer.encode(text)) for tokenizer in load_tokenizers()]


def make_checkpoint(number: int, **given: Any) -> Checkpoint:
    ordinary: dict[str, Any] = {
        "id": f"cp_{number:012d}", "task_id": "tk_1", "sequence": number, "type": CheckpointType.PROGRESS,
        "summary": f"step {number}", "detail": None, "files_changed": (), "agent_id": None, "created_at": number,
    }  # fmt: skip
    return Checkpoint(**(ordinary | given))


def make_done_task(number: int, **given: Any) -> RelatedTask:
    ordinary = {"id": f"tk_{number:012d}", "name": f"task {number}", "outcome": f"outcome {number}"}
    return RelatedTask(**(ordinary | {"status": TaskStatus.COMPLETED} | given))


def make_source(**given: Any) -> ContextSource:
    ordinary: dict[str, Any] = {
        "workflow": make_workflow(source_content="Build a shop.", plan_summary="First this, then that.",
                             initial_plan={"approach": "Slowly.", "risks": ["rain"]}),
        "task": make_task(id="tk_now", description="Build the till.", plan={"steps": ["draw", "build"]}),
        "checkpoints": [], "checkpoints_total": 0, "prior_tasks": [], "prior_total": 0,
        "siblings": [], "siblings_total": 0, "dependencies": [], "dependencies_total": 0,
    }  # fmt: skip
    return ContextSource(**(ordinary | given))


def make_heavy_source(text: str) -> ContextSource:
    """A task with too much data for any budget."""
    long = text * 300
    notes = [
        make_checkpoint(
            n, summary=text * 3, detail={"what": long, "list": [text] * 20}, files_changed=("a.py",) * 30
        )
        for n in range(1, 13)
    ]
    others = [make_done_task(n, outcome=long[:3000], name=f"{text[:60]} {n}") for n in range(60)]
    return ContextSource(
        workflow=make_workflow(name=text[:200], source_content=long, plan_summary=long, initial_plan={"approach": long}),
        task=make_task(
            id="tk_1",
            name=text[:200], description=long, plan={"approach": long, "steps": [text] * 200}, error=long,
            context={"notes": long, "deep": {"a": {"b": {"c": [long]}}}}, status=TaskStatus.FAILED, attempts=2,
        ),
        checkpoints=notes, checkpoints_total=40, prior_tasks=others, prior_total=900,
        siblings=others, siblings_total=60, dependencies=others, dependencies_total=60, blocked=True,
    )  # fmt: skip


def list_truncated(answer: dict[str, Any]) -> set[str]:
    return {cut["section"] for cut in answer.get("truncated", [])}


@pytest.mark.parametrize("budget", [8000, 4000, 2000, 1000, MIN_TOKENS])
@pytest.mark.parametrize("kind", TEXTS)
def test_the_context_of_a_large_task_stays_within_its_budget(kind: str, budget: int):
    answer = build_context(make_heavy_source(TEXTS[kind]), ContextOptions(all_checkpoints=True), budget)

    assert max(count_real_tokens(answer)) <= answer["token_estimate"] <= budget
    assert list_truncated(answer)


@pytest.mark.parametrize("budget", [8000, 2000, 1000])
def test_most_of_the_budget_is_used_when_there_is_enough_content(budget: int):
    answer = build_context(make_heavy_source(TEXTS["English"]), ContextOptions(), budget)

    assert answer["token_estimate"] > 0.8 * budget


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(max_size=3000), min_size=6, max_size=6),
    times=st.integers(1, 30),
    budget=st.integers(MIN_TOKENS, 4000),
    flags=st.fixed_dictionaries({flag: st.booleans() for flag in ("all_checkpoints", "prior_task_full")}),
)
def test_no_text_exceeds_the_budget(texts: list[str], times: int, budget: int, flags: dict[str, bool]):
    clean = [text.encode(errors="replace").decode() * times for text in texts]
    some = make_source(
        task=make_task(id="tk_1", description=clean[0], plan={"steps": clean[:3]}, context={clean[1][:50]: clean[2]}, name=clean[3][:200]),
        workflow=make_workflow(source_content=clean[4], name=clean[5][:200]),
        checkpoints=[make_checkpoint(n, summary=clean[n]) for n in range(1, 6)], checkpoints_total=5,
        prior_tasks=[make_done_task(n, outcome=clean[n], description=clean[5 - n]) for n in range(6)], prior_total=6,
    )  # fmt: skip

    answer = build_context(some, ContextOptions(**flags), budget)

    assert max(count_real_tokens(answer)) <= answer["token_estimate"] <= budget


def test_a_small_task_is_not_truncated():
    some = make_source(
        checkpoints=[make_checkpoint(1, detail={"why": "because"}, files_changed=("a.py",))], checkpoints_total=1,
        prior_tasks=[make_done_task(1)], prior_total=1, siblings=[make_done_task(2)], siblings_total=1,
        dependencies=[make_done_task(3)], dependencies_total=1,
    )  # fmt: skip

    answer = build_context(some, ContextOptions(), 8000)

    assert "truncated" not in answer
    assert answer["workflow"] == {
        "id": "wf_1", "name": some.workflow.name, "source_type": "prompt", "source_summary": "Build a shop.",
        "plan_summary": "First this, then that.", "status": some.workflow.status.value,
        "max_parallel_tasks": some.workflow.max_parallel_tasks,
        "plan": {"approach": "Slowly.", "risks": ["rain"]},
    }  # fmt: skip
    assert answer["current_task"]["description"] == "Build the till."
    assert answer["current_task"]["plan"] == {"steps": ["draw", "build"]}
    assert answer["current_task"]["checkpoints"] == [
        {"id": "cp_000000000001", "sequence": 1, "type": "progress", "summary": "step 1",
         "detail": {"why": "because"}, "files_changed": ["a.py"], "created_at": 1},
    ]  # fmt: skip
    assert answer["prior_tasks"] == [
        {"id": "tk_000000000001", "name": "task 1", "outcome": "outcome 1", "status": "completed"}
    ]
    assert answer["sibling_tasks"] == [
        {"id": "tk_000000000002", "name": "task 2", "status": "completed", "brief_summary": "outcome 2"}
    ]
    assert answer["dependency_outcomes"] == [
        {"task_id": "tk_000000000003", "task_name": "task 3", "outcome": "outcome 3"}
    ]


def test_a_sibling_that_has_not_started_is_only_named():
    waiting = RelatedTask(id="tk_2", name="draw", status=TaskStatus.PENDING, description="Draw the till.")

    answer = build_context(make_source(siblings=[waiting], siblings_total=1), ContextOptions(), 8000)

    assert answer["sibling_tasks"] == [{"id": "tk_2", "name": "draw", "status": "pending"}]


@pytest.mark.parametrize("in_full", [False, True])
def test_a_dependency_is_not_repeated_as_a_prior_task(in_full: bool):
    some = make_source(
        prior_tasks=[make_done_task(2), make_done_task(1)], prior_total=2,
        dependencies=[make_done_task(2)], dependencies_total=1,
    )  # fmt: skip

    answer = build_context(some, ContextOptions(prior_task_full=in_full), 8000)

    assert json.dumps(answer).count("outcome 2") == 1
    assert "truncated" not in answer


def test_truncated_sections_are_listed_with_the_call_that_returns_them():
    answer = build_context(make_heavy_source(TEXTS["English"]), ContextOptions(), 4000)

    cuts = {cut["section"]: cut for cut in answer["truncated"]}
    assert cuts["description"]["how"] == "task_get(id='tk_1')"
    assert cuts["description"]["kept"] < cuts["description"]["total"] == len(TEXTS["English"]) * 300
    assert cuts["checkpoints"]["total"] == 40
    assert "checkpoint_list" in cuts["checkpoints"]["how"]
    assert cuts["prior_tasks"]["total"] == 900 - 60  # the others are dependencies


def test_older_checkpoints_are_listed_as_truncated_even_within_the_budget():
    some = make_source(checkpoints=[make_checkpoint(7), make_checkpoint(8)], checkpoints_total=8)

    answer = build_context(some, ContextOptions(recent_checkpoints=2), 8000)

    assert [note["sequence"] for note in answer["current_task"]["checkpoints"]] == [7, 8]
    [cut] = answer["truncated"]
    assert (cut["section"], cut["kept"], cut["total"]) == ("checkpoints", 2, 8)


def test_all_checkpoints_include_details_only_for_the_recent_ones():
    some = make_source(
        checkpoints=[make_checkpoint(n, detail={"n": n}) for n in range(1, 5)], checkpoints_total=4
    )

    answer = build_context(some, ContextOptions(all_checkpoints=True, recent_checkpoints=1), 8000)

    shown = answer["current_task"]["checkpoints"]
    assert [note["sequence"] for note in shown] == [1, 2, 3, 4]
    assert [note.get("detail") for note in shown] == [None, None, None, {"n": 4}]


def test_the_newest_checkpoints_are_kept_when_the_budget_is_small():
    some = make_source(
        checkpoints=[make_checkpoint(n, summary="many words " * 100) for n in range(1, 6)],
        checkpoints_total=5,
    )

    shown = build_context(some, ContextOptions(), 800)["current_task"]["checkpoints"]

    assert shown
    assert shown[-1]["sequence"] == 5


def test_at_most_ten_files_of_a_checkpoint_are_listed():
    some = make_source(
        checkpoints=[make_checkpoint(1, files_changed=tuple(f"f{n}" for n in range(14)))], checkpoints_total=1
    )

    [note] = build_context(some, ContextOptions(), 8000)["current_task"]["checkpoints"]

    assert note["files_changed"] == [*(f"f{n}" for n in range(10)), "and 4 more"]


@pytest.mark.parametrize(
    ("flag", "keys"), [("workflow_plan", {"plan_summary", "plan"}), ("workflow_summary", {"source_summary"})]
)
def test_parts_of_the_workflow_can_be_excluded(flag: str, keys: set[str]):
    assert keys <= build_context(make_source(), ContextOptions(), 8000)["workflow"].keys()

    assert (
        not keys
        & build_context(make_source(), replace(ContextOptions(), **{flag: False}), 8000)["workflow"].keys()
    )


def test_other_tasks_can_be_excluded():
    some = make_source(
        prior_tasks=[make_done_task(1)], prior_total=1, siblings=[make_done_task(2)], siblings_total=1,
        dependencies=[make_done_task(3)], dependencies_total=1,
    )  # fmt: skip

    without = ContextOptions(prior_task_outcomes=False, sibling_status=False, dependency_outcomes=False)
    answer = build_context(some, without, 8000)

    assert answer["prior_tasks"] == []
    assert "sibling_tasks" not in answer
    assert "dependency_outcomes" not in answer


def test_prior_tasks_in_full_include_description_and_outcome_detail():
    prior = make_done_task(1, description="Draw it.", outcome_detail={"file": "a.svg"})

    [shown] = build_context(
        make_source(prior_tasks=[prior], prior_total=1), ContextOptions(prior_task_full=True), 8000
    )["prior_tasks"]

    assert (shown["description"], shown["outcome_detail"]) == ("Draw it.", {"file": "a.svg"})


def test_budget_unused_by_one_section_is_given_to_the_others():
    long = make_workflow(source_content=TEXTS["English"] * 40)

    alone = build_context(make_source(workflow=long), ContextOptions(), 2000)
    crowded = build_context(
        replace(make_heavy_source(TEXTS["English"]), workflow=long), ContextOptions(), 2000
    )

    assert len(alone["workflow"]["source_summary"]) > 3 * len(crowded["workflow"]["source_summary"])


def test_a_failed_task_has_its_error_and_its_attempts():
    some = make_source(task=make_task(status=TaskStatus.FAILED, error="The till burnt.", attempts=2))

    current = build_context(some, ContextOptions(), 8000)["current_task"]

    assert (current["error"], current["attempts"]) == ("The till burnt.", 2)


def test_a_blocked_task_is_marked_as_blocked():
    assert build_context(make_source(blocked=True), ContextOptions(), 8000)["current_task"]["blocked"] is True


def make_hostile_source() -> ContextSource:
    """A task whose fields all have their maximum size."""
    deep: dict[str, Any] = {"text": TEXTS["English"] * 50}
    for _ in range(60):
        deep = {"in": deep, "beside": list(range(100))}
    notes = [make_checkpoint(n, detail={"log": "a line of a log\n" * 6000}) for n in range(1, 501)]
    return make_source(
        task=make_task(id="tk_1", description="x" * 2**20, plan={"steps": [f"Step {n}" for n in range(10_000)]}, context=deep),
        workflow=make_workflow(source_content=TEXTS["Japanese"] * 9000),
        checkpoints=notes, checkpoints_total=500,
    )  # fmt: skip


@pytest.mark.parametrize("budget", [8000, 1000, MIN_TOKENS])
def test_a_task_of_maximum_size_is_loaded_quickly(budget: int):
    some = make_hostile_source()

    answer = build_context(some, ContextOptions(all_checkpoints=True), budget)

    assert (
        measure_effort(lambda: build_context(some, ContextOptions(all_checkpoints=True), budget), enough=150)
        < 150
    )
    assert max(count_real_tokens(answer)) <= answer["token_estimate"] <= budget


@pytest.mark.parametrize("budget", [8000, 1003, 1001, 1000, 999, MIN_TOKENS])
def test_the_token_estimate_includes_itself(budget: int):
    answer = build_context(make_heavy_source(TEXTS["code"]), ContextOptions(), budget)

    assert answer["token_estimate"] == estimate_tokens(
        json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    )


def test_shortened_sections_keep_their_types():
    current = build_context(make_hostile_source(), ContextOptions(), 1000)["current_task"]

    assert current["plan"]["steps"][0] == "Step 0"
    assert current["plan"]["steps"][-1].startswith("and ")
    assert isinstance(current["context"], dict)
    assert current["description"].startswith("xxx")


def test_a_shortened_checkpoint_is_listed_with_the_call_that_returns_it():
    some = make_source(
        checkpoints=[make_checkpoint(1), make_checkpoint(2), make_checkpoint(3, detail={"log": "words " * 9000})], checkpoints_total=3
    )  # fmt: skip

    [cut] = build_context(some, ContextOptions(), 2000)["truncated"]

    assert (cut["section"], cut["kept"], cut["total"]) == ("checkpoints", 2, 3)
    assert cut["how"] == "checkpoint_list(task_id='tk_1', since_sequence=2)"


def test_truncated_sections_are_listed_in_one_entry_when_the_budget_is_small():
    [*_, last] = build_context(make_heavy_source(TEXTS["English"]), ContextOptions(), 1000)["truncated"]

    assert {"plan", "checkpoints", "source", "prior_tasks"} <= set(last["section"].split(", "))
    assert last["how"] == "task_get(id='tk_1'), workflow_get(id='wf_1', include_tasks=true)"


def test_a_dependency_without_an_outcome_shows_its_status():
    waiting = [RelatedTask(id="tk_2", name="draw", status=TaskStatus.IN_PROGRESS)]

    answer = build_context(make_source(dependencies=waiting, dependencies_total=1), ContextOptions(), 8000)

    assert answer["dependency_outcomes"] == [
        {"task_id": "tk_2", "task_name": "draw", "outcome": "(in_progress)"}
    ]
