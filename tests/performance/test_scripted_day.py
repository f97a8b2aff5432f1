"""The scripted day works on real servers, and costs no more than recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.scripted_day import FIGURES, Recording, format_answers, record_day, save_figures


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record_day(tmp_path_factory.mktemp("day"))


def test_the_errors_of_the_day_are_a_lost_claim_and_claims_that_come_too_late(recording: Recording):
    errors = {
        (each.name, json.loads(each.answer)["code"])
        for each in recording.exchanges
        if each.answer.startswith('{"code"')
    }

    # Another agent may have finished a task between the offer and the claim.
    assert errors - {("task_claim", "INVALID_STATE")} == {("task_update_status", "STALE_CLAIM")}


def test_the_day_finishes_a_job_a_plan_and_a_tracked_workflow(recording: Recording):
    answers = "\n".join(each.answer for each in recording.exchanges)

    assert '"status":"workflow_complete"' in answers
    assert "12 of 12 tasks done" in answers
    assert '"total_phases":2,"total_tasks":3' in answers


def test_the_answers_file_has_every_exchange_without_random_ids(recording: Recording, tmp_path: Path):
    text = format_answers(recording, tmp_path)

    assert text.count("\n## ") + 1 == len(recording.exchanges)
    assert "tk_000000000" in text


def test_the_day_costs_a_quarter_less_than_before_its_answers_were_shortened(recording: Recording):
    before = json.loads(FIGURES.read_text())["before"]

    figures = recording.build_figures()

    assert figures["tokens"] <= 0.75 * before["tokens"]
    assert figures["calls"] <= 0.8 * before["calls"]
    assert figures["tools_list_bytes"] <= 0.87 * before["tools_list_bytes"]


def test_saved_figures_are_kept_by_name(tmp_path: Path):
    path = tmp_path / "figures.json"

    save_figures(path, "before", {"calls": 2})
    save_figures(path, "after", {"calls": 1})

    assert json.loads(path.read_text()) == {"before": {"calls": 2}, "after": {"calls": 1}}
    assert FIGURES.exists()
