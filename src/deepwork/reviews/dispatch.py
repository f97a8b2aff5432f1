"""Reviews as a list of tasks, in the form that a platform hands to its subagents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.files.stamps import speakable
from deepwork.reviews.instructions import Instructions

GENERAL = "general-purpose"

_CLAUDE = "Invoke the following list of Tasks in parallel, each with the Task tool:"
_NEUTRAL = (
    "Make these reviews, in parallel if you can: give each to a subagent of its own, "
    "or do them one after another."
)
_AFTERWARDS = (
    "When a review finds nothing to change, call mark_review_passed with its review_id (the last line of "
    "its instructions): it is then left out until its rule or its files change."
)


def tasks(several: Sequence[Instructions], platform: str) -> list[dict[str, str]]:
    """What each reviewer is called, and told."""
    return [
        {
            "name": f"{each.review.rule.name} review of {speakable(each.review.scope)}",
            "description": f"Review {each.review.rule.name}",
            "subagent_type": each.review.rule.agents.get(platform, GENERAL),
            "prompt": _prompt(each, platform),
        }
        for each in several
    ]


def as_text(several: Sequence[Instructions], platform: str) -> str:
    """The list, ready to be handed out."""
    form = _claude if platform == "claude" else _neutral
    opening = _CLAUDE if platform == "claude" else _NEUTRAL
    blocks = [form(number, task) for number, task in enumerate(tasks(several, platform), start=1)]
    return "\n\n".join([opening, *blocks, _AFTERWARDS])


def left_out(count: int) -> str:
    """Why the list is shorter than the rules would make it."""
    if count == 1:
        return "1 review was left out: it passed before, and its rule and files have not changed since."
    why = "they passed before, and their rules and files have not changed since"
    return f"{count} reviews were left out: {why}."


def _prompt(each: Instructions, platform: str) -> str:
    return f"@{each.path}" if platform == "claude" else f"Read {each.path} and do what it says."


def _claude(number: int, task: dict[str, str]) -> str:  # noqa: ARG001
    return "\n".join(
        [
            f"name: {_quoted(task['name'])}",
            f"\tdescription: {task['description']}",
            f"\tsubagent_type: {_plain(task['subagent_type'])}",
            f"\tprompt: {_quoted(task['prompt'])}",
        ]
    )


def _neutral(number: int, task: dict[str, str]) -> str:
    return "\n".join(
        [
            f"{number}. name: {_quoted(task['name'])}",
            f"   description: {task['description']}",
            f"   subagent_type: {_plain(task['subagent_type'])}",
            f"   prompt: {_quoted(task['prompt'])}",
        ]
    )


def _quoted(text: str) -> str:
    """Within quotes, so that no file's name can begin a line of its own."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _plain(text: str) -> str:
    return text if text.isprintable() else _quoted(text)
