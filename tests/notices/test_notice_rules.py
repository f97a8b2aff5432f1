"""The texts of notices."""

from __future__ import annotations

from deepwork.kernel.notices import models


def test_the_text_of_a_pause_says_why_and_what_to_do():
    text = models.build_plan_text("Login", "paused", "Wait for the contract")

    assert text.startswith(
        'Plan "Login" was paused: Wait for the contract. Do not start or continue its tasks'
    )
    assert "checkpoint_add" in text


def test_a_sentence_ends_once():
    assert models.build_plan_text("Login", "abandoned", "No need.") == (
        'Plan "Login" was abandoned: No need. Stop work on its tasks.'
    )
    assert models.build_plan_text("Login", "in_progress", None) == (
        'Plan "Login" was resumed. Continue your task.'
    )


def test_a_status_that_lets_the_work_go_on_does_not_stop_it():
    assert models.build_task_text("build", "in_progress", None, goes_on=True) == (
        'Task "build" was set to in_progress.'
    )
    assert models.build_task_text("build", "skipped", None, goes_on=False).endswith("Stop work on it.")


def test_names_are_quoted_on_one_line_and_long_texts_are_cut():
    question = "Which\nrate? " + "x" * 500

    text = models.build_answer_text(question, "7 percent", was_asked=True)

    assert text.startswith('Answer to your question "Which rate? xxx')
    assert text.endswith('…": 7 percent')
    assert "\n" not in text
    assert len(models.cut_text("y" * 5000)) == models.MAX_TEXT
