"""What agents are asked to do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deepwork.delivery.runner.attempt_files import DamagedFiles, open_to_read
from deepwork.kernel.config import TMP_FOLDER
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import Task, Workflow

if TYPE_CHECKING:
    from deepwork.work.jobs.responses import ActiveStep, ExpectedOutput, StepInput

_MAX_REASON = 4000


@dataclass(frozen=True)
class PromptContent:
    """What the prompt of an attempt's first start is made of."""

    workflow: Workflow
    task: Task
    context: Mapping[str, Any]
    """What `task_load_context` returns, within its budget."""
    tree: str
    folder: str
    """The project's folder in the tree."""
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


def build_words_prompt(task_name: str) -> str:
    """Build the prompt that follows what a person said about work that had ended."""
    return (
        f"That was said about your work on the task {task_name!r}. Do it in the same folder; if there is "
        "nothing to do, say so. Then report again in your last message.\n"
    )


def build_correction_prompt(problem: str, task_name: str) -> str:
    """Build the prompt after work that does not count as done."""
    return (
        f"The task {task_name!r} is not done yet. This is why:\n\n{problem[:_MAX_REASON]}\n\n"
        "Correct that in the same folder, then report again in your last message.\n"
    )


def _describe_place(content: PromptContent) -> str:
    inside = os.path.relpath(content.folder, content.tree)
    place = "a git worktree of your own" if inside == "." else f"{inside} in a git worktree of your own"
    lines = [
        "# Where you work",
        "",
        f"Your current folder is {place}, on the branch {content.branch}: {content.tree}",
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


_MAX_FEEDBACK = 8000
_ALONE = (
    "Do this step, and no other one. Nobody is there to answer questions: decide what is left open, and say "
    "so in your last message."
)
_REPORT_FORM = (
    "If a reviewer of yours has given verdicts, write the file as a JSON object with the keys `outputs` (a "
    "path for each name) and `review_results` (the list of verdicts)."
)

OUTPUTS_VARIABLE: Final = "DEEPWORK_OUTPUTS"
_MAX_BYTES = 1_000_000
_MAX_FILES = 1_000
_REPORT_KEYS = ("outputs", "notes", "review_results")


@dataclass(frozen=True)
class StepPrompt:
    """What the prompt of a step is made of."""

    goal: str
    workflow: str
    step: ActiveStep
    tree: str
    branch: str
    has_mcp: bool
    agent_id: str
    ports: range | None = None
    earlier: str | None = None
    """What was wrong with the work so far, or why the attempt before failed."""


def build_step_prompt(content: StepPrompt) -> str:
    """Build the prompt of a start that continues no session of the agent."""
    step = content.step
    parts = [
        f"# Step {step.step_id} of {content.workflow}",
        f"The goal of the whole workflow: {content.goal}",
        _ALONE,
        _quote_whole("About this job", step.common_job_info),
        _quote_whole("What to do", step.step_instructions),
        _describe_inputs(step.step_inputs),
        _describe_outputs(content),
        _describe_gate(content),
        _describe_step_place(content),
        _quote_whole("What is wrong with the work so far", (content.earlier or "")[:_MAX_FEEDBACK]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def build_step_correction(feedback: str, step_id: str) -> str:
    """Build the prompt for a step that needs work."""
    return (
        f"Step {step_id} is not done yet. This is why:\n\n{feedback[:_MAX_FEEDBACK]}\n\n"
        "Correct that in the same folder, then end. Where this text says to call finished_step, deepwork "
        f"does that when you end: name the outputs again in the file ${OUTPUTS_VARIABLE} if they are not "
        f"where the first message expects them. {_REPORT_FORM}\n"
    )


def _describe_inputs(inputs: Sequence[StepInput]) -> str:
    lines = []
    for each in inputs:
        if each.from_step:
            lines.append(f"- {each.name}, from step {each.from_step}: {', '.join(each.paths or ['nothing'])}")
        else:
            lines.append(f"- {each.name}: {each.description} Take it from the goal, or decide it yourself.")
    return _quote_whole("Inputs", "\n".join(lines))


def _describe_outputs(content: StepPrompt) -> str:
    lines = []
    for output in list_outputs(content.step):
        kind = "every file in the folder" if output.type == "files" else "the file"
        need = "" if output.required else " (optional)"
        lines.append(f"- {output.name}{need}: {kind} `{locate_output(output)}`. {output.description}")
    if not lines:
        return "# Outputs\n\nThis step has none."
    lines.append(
        "\nIf the instructions name other places, write the files there, and name them in the file "
        f"${OUTPUTS_VARIABLE}: a JSON object that maps the name of each output to its path, or to a list of "
        "paths if it is several files. All paths are relative to your current folder."
    )
    return _quote_whole("Outputs", "\n".join(lines))


def _describe_gate(content: StepPrompt) -> str:
    step = content.step
    lines = [
        f"- {name}: {question}"
        for review in step.step_reviews
        for name, question in review.quality_criteria.items()
    ]
    if lines:
        lines.insert(0, "A reviewer judges the outputs by these criteria:")
    if step.step_checks:
        lines.append(f"deepwork runs these checks itself, and all must pass: {', '.join(step.step_checks)}.")
    lines.append("When you end, deepwork reports the step as done. Your last message is stored with it.")
    if content.has_mcp:
        lines.append(
            "If the MCP server `deepwork` is connected, you may report the step yourself with finished_step, "
            f"session_id {step.session_id} and step_id {step.step_id}. When it answers with the next step, "
            f"end: another agent does that one. Your agent id is {content.agent_id}."
        )
    return _quote_whole("What counts as done", "\n".join(lines))


def _describe_step_place(content: StepPrompt) -> str:
    lines = [
        f"Your folder is in a git worktree of its own, on the branch {content.branch}: {content.tree}",
        "Change files only there. You need not commit: deepwork commits what you leave.",
    ]
    if content.ports:
        first, last = content.ports[0], content.ports[-1]
        lines.append(f"Servers that you start may use the ports {first} to {last}, and no others.")
    return _quote_whole("Where you work", "\n".join(lines))


def _quote_whole(title: str, text: str | None) -> str:
    return f"# {title}\n\n{text.strip()}" if text and text.strip() else ""


@dataclass(frozen=True)
class StepReport:
    """What is reported about a step, in the words of `finished_step`."""

    outputs: Mapping[str, Any] = field(default_factory=dict)
    notes: str | None = None
    review_results: tuple[Any, ...] = ()


def locate_report(tree: Path, attempt_id: str) -> Path:
    """Return the file in which an agent may name its outputs; git ignores it."""
    return tree / TMP_FOLDER / f"outputs_{attempt_id}.json"


def list_outputs(step: ActiveStep) -> list[ExpectedOutput]:
    """List the outputs of the current steps; those of concurrent ones are reported together."""
    others = [output for each in step.concurrent_steps or () for output in each.step_expected_outputs]
    return list({output.name: output for output in (*others, *step.step_expected_outputs)}.values())


def locate_output(output: ExpectedOutput) -> str:
    """Return where an output is expected, relative to the project: a file, or a folder for several files."""
    if output.type == "files":
        return f"{output.name}/"
    return output.name if Path(output.name).suffix or "/" in output.name else f"{output.name}.md"


def collect_report(tree: Path, file: Path, outputs: Iterable[ExpectedOutput]) -> StepReport:
    """Return what the agent named in its file, and what else it wrote where it was expected."""
    named = read_report(file)
    found = {output.name: path for output in outputs if (path := _find_output(tree, output))}
    return StepReport({**found, **named.outputs}, named.notes, named.review_results)


def _find_output(tree: Path, output: ExpectedOutput) -> str | list[str] | None:
    place = locate_output(output)
    if output.type != "files":
        return place if (tree / place).is_file() else None
    found = sorted(path for path in (tree / place).rglob("*") if path.is_file())
    return [path.relative_to(tree).as_posix() for path in found[:_MAX_FILES]] or None


def read_report(file: Path) -> StepReport:
    """Read the file in which an agent names its outputs, with its notes and verdicts or without."""
    try:
        with os.fdopen(open_to_read(file), "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return StepReport()
    except DamagedFiles as error:
        raise _build_error(file, "is not a file that can be read") from error
    except OSError as error:
        raise _build_error(file, f"cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise _build_error(file, f"is larger than {_MAX_BYTES} bytes")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise _build_error(file, "is not JSON") from None
    if not isinstance(data, dict):
        raise _build_error(file, "is not a JSON object")
    return _parse_report(file, data)


def _parse_report(file: Path, data: dict[str, Any]) -> StepReport:
    if not isinstance(data.get("outputs"), dict):  # the short form: nothing but the outputs
        has_more = isinstance(data.get("review_results"), list)
        return _parse_report(file, {"outputs": {}, **data}) if has_more else StepReport(data)
    if unknown := [name for name in data if name not in _REPORT_KEYS]:
        raise _build_error(file, f"has the unknown keys {', '.join(unknown)[:200]}")
    notes, results = data.get("notes"), data.get("review_results") or []
    if not isinstance(results, list):
        raise _build_error(file, "has review_results that are no list")
    return StepReport(data["outputs"], notes if isinstance(notes, str) else None, tuple(results))


def _build_error(file: Path, problem: str) -> InvalidInput:
    return InvalidInput(
        f"The file {file.name} (${OUTPUTS_VARIABLE}) {problem}.",
        suggestion='Write a JSON object that maps the name of each output to its path, such as {"report": '
        '"report.md"}.',
    )
