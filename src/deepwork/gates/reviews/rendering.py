"""Renders reviews as tasks, in the form that a platform gives to its subagents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.gates.reviews.instructions import PreparedReview
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.text_budget.shortening import cut_list

GENERAL = "general-purpose"
MAX_REVIEWS = 200
MAX_TASK_BYTES = 64 * 1024
_TASK_FRAME_BYTES = 120

_CLAUDE_OPENING = "Invoke the following list of Tasks in parallel, each with the Task tool:"
_NEUTRAL_OPENING = (
    "Do these reviews, in parallel if you can: give each to its own subagent, or do them one after another."
)
_CLOSING_TEXT = (
    "When a review finds nothing to change, call mark_review_passed with its review_id (the last line of "
    "its instructions): it is then left out until its rule or its files change."
)


def build_tasks(reviews: Sequence[PreparedReview], platform: str) -> list[dict[str, str]]:
    """Build one task per review: name, description, subagent type and prompt."""
    return [
        {
            "name": f"{each.review.rule.name} review of {to_printable_name(each.review.scope)}",
            "description": f"Review {each.review.rule.name}",
            "subagent_type": each.review.rule.agents.get(platform, GENERAL),
            "prompt": _format_prompt(each, platform),
        }
        for each in reviews
    ]


def cut_reviews(reviews: Sequence[PreparedReview]) -> list[PreparedReview]:
    """Return the first reviews, as many as fit into an answer; at least one."""
    fitting = cut_list(
        reviews, max_entries=MAX_REVIEWS, max_bytes=MAX_TASK_BYTES, measure=_estimate_task_bytes
    )
    return fitting or list(reviews[:1])


def _estimate_task_bytes(each: PreparedReview) -> int:
    """Estimate the size of a task; it shows the name of the rule twice."""
    words = (each.review.rule.name, each.review.rule.name, each.review.scope, each.path)
    return _TASK_FRAME_BYTES + sum(len(word.encode(errors="replace")) for word in words)


def render_tasks(reviews: Sequence[PreparedReview], platform: str) -> str:
    """Render the tasks as text for an agent on this platform."""
    render_task = _render_claude_task if platform == "claude" else _render_neutral_task
    opening = _CLAUDE_OPENING if platform == "claude" else _NEUTRAL_OPENING
    blocks = [
        render_task(number, task) for number, task in enumerate(build_tasks(reviews, platform), start=1)
    ]
    return "\n\n".join([opening, *blocks, _CLOSING_TEXT])


def format_later_count(count: int) -> str:
    """Say how many reviews are due besides those that are listed."""
    which = "1 more review is due" if count == 1 else f"{count} more reviews are due"
    return (
        f"This list was truncated: {which}. Do these first and mark those that pass, then call "
        "get_review_instructions again, or name other files."
    )


def format_passed_count(count: int) -> str:
    """Say how many reviews are left out because they already passed."""
    if count == 1:
        return "1 review was left out: it passed before, and its rule and files have not changed since."
    why = "they passed before, and their rules and files have not changed since"
    return f"{count} reviews were left out: {why}."


def _format_prompt(each: PreparedReview, platform: str) -> str:
    return f"@{each.path}" if platform == "claude" else f"Read {each.path} and do what it says."


def _render_claude_task(number: int, task: dict[str, str]) -> str:  # noqa: ARG001
    return "\n".join(
        [
            f"name: {_quote(task['name'])}",
            f"\tdescription: {task['description']}",
            f"\tsubagent_type: {_quote_if_unprintable(task['subagent_type'])}",
            f"\tprompt: {_quote(task['prompt'])}",
        ]
    )


def _render_neutral_task(number: int, task: dict[str, str]) -> str:
    return "\n".join(
        [
            f"{number}. name: {_quote(task['name'])}",
            f"   description: {task['description']}",
            f"   subagent_type: {_quote_if_unprintable(task['subagent_type'])}",
            f"   prompt: {_quote(task['prompt'])}",
        ]
    )


def _quote(text: str) -> str:
    """Quote the text so that no file name can start a new line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _quote_if_unprintable(text: str) -> str:
    return text if text.isprintable() else _quote(text)
