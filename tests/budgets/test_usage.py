"""What agents report as used: strict about its form, but no call fails for it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from application import call_tool, list_events
from budgets.make import create_plan, report
from deepwork.edge.server.application import Application
from deepwork.gates.budgets.models import CostSource, SubjectKind
from deepwork.gates.budgets.rules import load_price_table
from deepwork.gates.budgets.service import BudgetService
from deepwork.gates.budgets.store import read_usage
from deepwork.views.overview.spending import build_spending
from tracking import make as track

MALFORMED: list[Any] = [
    *(None, 5, "many", [], {}),
    *({"tokens": "5"}, {"tokens": 1.5}, {"tokens": -1}, {"tokens": True}, {"tokens": 10**13}),
    *({"usd": "1"}, {"usd": -0.1}, {"usd": math.nan}, {"usd": math.inf}, {"usd": 10**7}, {"usd": True}),
    *({"tokens": 5, "model": 7}, {"tokens": 5, "model": "x" * 101}, {"tokens": 5, "model": "a\nb"}),
    *({"tokens": 5, "cost": 1}, {"model": "gpt-5"}, {"input_tokens": -5}, {"tokens": 0}),
]


@pytest.mark.parametrize("usage", MALFORMED, ids=repr)
def test_a_malformed_usage_is_a_problem_and_not_an_error(usage: Any):
    found = read_usage({"usage": usage})

    assert found.usage is None
    assert str(found.problem).startswith("`usage` was not counted: ")


@pytest.mark.parametrize(
    ("given", "tokens", "usd_micros", "source"),
    [
        ({"tokens": 1200, "usd": 0.03}, 1200, 30_000, CostSource.UNVERIFIED),
        ({"usd": 0.0000014}, 0, 1, CostSource.UNVERIFIED),
        ({"usd": 0}, 0, 0, CostSource.UNVERIFIED),
        ({"tokens": 7, "model": "never-heard-of"}, 7, 0, CostSource.UNVERIFIED),
        ({"tokens": 7}, 7, 0, CostSource.UNVERIFIED),
        ({"input_tokens": 10, "output_tokens": 2, "model": "claude-sonnet-4-5"}, 12, 60, CostSource.PRICED),
        (
            {
                "input_tokens": 10,
                "cached_tokens": 100,
                "output_tokens": 2,
                "model": "claude-sonnet-4-5-20250929",
            },
            112,
            90,
            CostSource.PRICED,
        ),
        ({"tokens": 100, "model": "anthropic/claude-sonnet-4-5"}, 100, 420, CostSource.ESTIMATED),
        ({"tokens": 100, "input_tokens": 10, "model": "claude-sonnet-4-5"}, 100, 420, CostSource.ESTIMATED),
    ],
)
def test_the_source_says_what_an_amount_is_worth(
    given: dict[str, Any], tokens: int, usd_micros: int, source: CostSource
):
    usage = read_usage({"usage": given}).usage

    assert usage is not None
    assert (usage.tokens, usage.usd_micros, usage.source) == (tokens, usd_micros, source)


def test_the_price_table_has_a_date_and_plausible_prices():
    table = load_price_table()

    assert len(table.date) == len("2026-11-17")
    assert table.source
    for price in table.models.values():
        assert 0 < price.cached <= price.input < price.output


def test_the_call_works_and_warns(app: Application):
    _, task = create_plan(app, {"name": "a"})

    answer = report(app, task, tokens=-5)
    ended = call_tool(
        app,
        "task_update_status",
        id=task,
        status="completed",
        outcome="Done.",
        outcome_detail={"usage": "much"},
    )

    assert answer["sequence"] == 1
    assert answer["warning"].startswith("`usage` was not counted: ")
    assert ended["success"]
    assert ended["warning"].startswith("`usage` was not counted: ")
    assert "spending:recorded" not in [event.type for event in list_events(app)]


def test_a_repeated_report_counts_once(app: Application):
    plan, task = create_plan(app, {"name": "a"})

    for _ in range(3):
        report(app, task, "key-1", tokens=5, usd=0.5)
    for _ in range(2):
        call_tool(
            app,
            "task_update_status",
            id=task,
            status="completed",
            outcome="Done.",
            outcome_detail={"usage": {"tokens": 7}},
        )

    with app.database.reading() as tx:
        total = BudgetService(tx).find_total(SubjectKind.PLAN, plan)
        assert (total.cost.tokens, total.cost.usd_micros) == (12, 500_000)
        assert BudgetService(tx).find_total(SubjectKind.TASK, task).cost == total.cost
    assert [event.type for event in list_events(app)].count("spending:recorded") == 2


def test_the_metadata_of_a_tracked_task_counts_once(app: Application):
    where = track.create_workflow_and_phase(app)
    priced, said = track.create_task(app, where, "a"), track.create_task(app, where, "b")
    figures = {"tokens_input": 1_000_000, "tokens_output": 1000, "model": "claude-sonnet-4-5"}

    for _ in range(2):
        track.complete_task(app, priced, metadata=figures)
        track.complete_task(app, said, metadata={"cost_usd": 0.5, "tokens_input": 10})

    with app.database.reading() as tx:
        [line] = build_spending(tx, "plan")["spending"]
        by_task = build_spending(tx, "task", None)["spending"]
    assert (line["plan"], line["usd"], line["tokens"]) == (where[0], 3.515, 1_001_010)
    assert line["sources"] == ["priced", "unverified"]
    assert [each["task"] for each in by_task] == [priced, said]
