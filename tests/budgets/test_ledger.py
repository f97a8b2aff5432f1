"""Totals equal the ledger, whatever part of a stream is recorded, and however often; races for the rest."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from application import call_tool, make_app
from budgets.make import create_plan, write_user_settings
from deepwork.edge.server.application import Application
from deepwork.gates.budgets.models import Cost, CostSource, Entry, SubjectKind, Usage
from deepwork.gates.budgets.service import BudgetService, split_by_day
from deepwork.gates.budgets.store import SpendingStore

RACERS = 4

lines = st.tuples(
    st.sampled_from(["s1", "s2"]),
    st.integers(1, 6),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from(["tk_1", "tk_2"]),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=st.lists(lines, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_totals_equal_the_ledger_for_any_cut_and_replay(
    app: Application, stream: list[tuple[str, int, int, int, str]], cuts: list[int]
):
    with app.database.transaction() as tx:
        tx.execute("DELETE FROM spending")
        tx.execute("DELETE FROM spending_totals")
    entries = [
        Entry(name, number, Usage(tokens, usd, CostSource.REPORTED), "wf_1", task)
        for name, number, tokens, usd, task in stream
    ]

    for part in [*(entries[:cut] for cut in cuts), entries, *(entries[cut:] for cut in cuts)]:
        with app.database.transaction() as tx:
            for entry in part:
                BudgetService(tx).record(entry)

    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT * FROM spending")
        first = {(entry.stream, entry.number): entry for entry in reversed(entries)}
        assert {(row["stream"], row["number"]) for row in rows} == set(first)
        assert BudgetService(tx).find_total(SubjectKind.PLAN, "wf_1").cost == _sum(rows)
        for task in ("tk_1", "tk_2"):
            of_task = [row for row in rows if row["task_id"] == task]
            assert BudgetService(tx).find_total(SubjectKind.TASK, task).cost == _sum(of_task)
        [day] = SpendingStore(tx).sum_by("day", None, 5) or [{"usd_micros": 0}]
        assert int(day["usd_micros"]) == _sum(rows).usd_micros


def test_a_report_that_is_rolled_back_is_in_neither(app: Application):
    entry = Entry("s1", 1, Usage(5, 5, CostSource.REPORTED), "wf_1")

    def fail_after_recording() -> None:
        with app.database.transaction() as tx:
            BudgetService(tx).record(entry)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_recording()

    with app.database.reading() as tx:
        assert BudgetService(tx).find_total(SubjectKind.PLAN, "wf_1").cost == Cost()
        assert SpendingStore(tx).sum_by("plan", None, 5) == []


def test_a_time_over_midnight_belongs_to_both_days():
    day = 24 * 3600 * 1000

    assert split_by_day(day - 5, day + 7) == [("1970-01-01", 5), ("1970-01-02", 7)]
    assert split_by_day(7, 7) == []


@pytest.mark.differs
def test_of_processes_that_race_for_the_last_dollar_one_is_admitted(
    tmp_path: Path, app: Application, location: str
):
    tasks = [{"name": f"t{number}", "budget": {"usd": 1}} for number in range(RACERS)]
    _, *ids = create_plan(app, *tasks, budget={"usd": 1})
    agents = [
        call_tool(app, "agent_register", name=f"a{number}", runtime="custom")["id"]
        for number in range(RACERS)
    ]
    context = multiprocessing.get_context("spawn")

    with context.Pool(RACERS) as pool:
        claims = [(str(tmp_path), location, *pair) for pair in zip(ids, agents, strict=True)]
        reasons = Counter(pool.starmap(claim_in_process, claims))

    assert reasons == {"granted": 1, "budget": RACERS - 1}


@pytest.mark.differs
def test_of_plans_that_race_for_the_last_dollar_of_the_day_one_gets_it(
    tmp_path: Path, app: Application, location: str, monkeypatch: pytest.MonkeyPatch
):
    write_user_settings(tmp_path, monkeypatch, "budget: {day: {usd: 1}}")
    tasks = [create_plan(app, {"name": "a", "budget": {"usd": 1}})[1] for _ in range(RACERS)]
    agents = [
        call_tool(app, "agent_register", name=f"a{number}", runtime="custom")["id"]
        for number in range(RACERS)
    ]
    context = multiprocessing.get_context("spawn")

    with context.Pool(RACERS) as pool:
        claims = [(str(tmp_path), location, *pair) for pair in zip(tasks, agents, strict=True)]
        reasons = Counter(pool.starmap(claim_in_process, claims))

    assert reasons == {"granted": 1, "budget": RACERS - 1}


def claim_in_process(folder: str, location: str, task: str, agent: str) -> str:
    """Claim a task with an application of its own, and return the reason of a refusal."""
    app = make_app(Path(folder), location)
    try:
        answer = call_tool(app, "task_claim", task_id=task, agent_id=agent)
    finally:
        app.close()
    return "granted" if answer["success"] else str(answer["reason"])


def _sum(rows: list[dict[str, int]]) -> Cost:
    return Cost(sum(row["usd_micros"] for row in rows), sum(row["tokens"] for row in rows))
