"""Builds the prompts of agents: the task, its context, where it works, what counts as done, how to report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.work.plans.models import Task, Workflow

_MAX_REASON = 4000


@dataclass(frozen=True)
class PromptContent:
    """What the prompt of an attempt's first start is made of."""

    workflow: Workflow
    task: Task
    context: Mapping[str, Any]
    """What `task_load_context` returns, within its budget."""
    tree: str
    branch: str
    checks: Sequence[str]
    needs_changes: bool
    has_mcp: bool
    agent_id: str
    claim_epoch: int
    port: int | None = None
    ports: int = 0
    earlier: str | None = None
    """Why the attempt before failed, and what it left."""
    missing: str | None = None
    """Which work of its dependencies the tree does not have."""


def build_prompt(content: PromptContent) -> str:
    """Build the prompt of a first start."""
    parts = [
        f"# Task: {content.task.name}",
        content.task.description.strip(),
        _describe_place(content),
        _quote("What is missing in your folder", content.missing),
        _describe_done(content),
        _describe_report(content),
        _quote("What an earlier attempt left", content.earlier),
        "# Context\n\nWhat is known about the task, as JSON:\n\n"
        + json.dumps(content.context, ensure_ascii=False, indent=1),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def build_resume_prompt(reason: str, task_name: str) -> str:
    """Build the prompt of a session that continues."""
    return (
        f"You were interrupted while you worked on the task {task_name!r}: {reason[:_MAX_REASON]}\n\n"
        "Look at what is already there in your folder, continue where you stopped, and finish the task as "
        "the first message describes.\n"
    )


def build_correction_prompt(problem: str, task_name: str) -> str:
    """Build the prompt after work that does not count as done."""
    return (
        f"The task {task_name!r} is not done yet. This is why:\n\n{problem[:_MAX_REASON]}\n\n"
        "Correct that in the same folder, then report again in your last message.\n"
    )


def _describe_place(content: PromptContent) -> str:
    lines = [
        "# Where you work",
        "",
        f"Your current folder is a git worktree of your own, on the branch {content.branch}: {content.tree}",
        "Change files only there. You need not commit: deepwork commits what you leave.",
    ]
    if content.port is not None:
        last = content.port + content.ports - 1
        lines.append(f"Servers that you start may use the ports {content.port} to {last}, and no others.")
    return "\n".join(lines)


def _describe_done(content: PromptContent) -> str:
    lines = ["# What counts as done", ""]
    if content.checks:
        lines.append(f"deepwork runs these checks itself, and all must pass: {', '.join(content.checks)}.")
    elif content.needs_changes:
        lines.append("Your folder must have changed: work that changes no file does not count.")
    else:
        lines.append("This task needs no change of files; your last message is its result.")
    lines.append("That you say so, or that you exit without an error, is not enough.")
    return "\n".join(lines)


def _describe_report(content: PromptContent) -> str:
    lines = [
        "# How to report",
        "",
        "Your last message is stored as the outcome: say in a few sentences what you did and what is left.",
        "If you cannot do the task, say why and exit with an error if you can.",
    ]
    if content.has_mcp:
        lines.append(
            "If the MCP server `deepwork` is connected, you may record progress with checkpoint_add and read "
            f"with task_load_context; the task is {content.task.id}, your agent id is {content.agent_id}, "
            f"your claim_epoch is {content.claim_epoch}. The task is claimed for you already."
        )
    return "\n".join(lines)


def _quote(title: str, text: str | None) -> str:
    return f"# {title}\n\n{text[:_MAX_REASON]}" if text else ""
