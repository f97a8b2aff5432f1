"""Builds the prompts for the steps of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepwork.delivery.runner.job_outputs import OUTPUTS_VARIABLE, list_outputs, locate_output
from deepwork.work.jobs.responses import ActiveStep, StepInput

_MAX_REASON = 8000
_ALONE = (
    "Do this step, and no other one. Nobody is there to answer questions: decide what is left open, and say "
    "so in your last message."
)
_REPORT_FORM = (
    "If a reviewer of yours has given verdicts, write the file as a JSON object with the keys `outputs` (a "
    "path for each name) and `review_results` (the list of verdicts)."
)


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
        _quote("About this job", step.common_job_info),
        _quote("What to do", step.step_instructions),
        _describe_inputs(step.step_inputs),
        _describe_outputs(content),
        _describe_gate(content),
        _describe_place(content),
        _quote("What is wrong with the work so far", (content.earlier or "")[:_MAX_REASON]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def build_step_correction(feedback: str, step_id: str) -> str:
    """Build the prompt for a step that needs work."""
    return (
        f"Step {step_id} is not done yet. This is why:\n\n{feedback[:_MAX_REASON]}\n\n"
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
    return _quote("Inputs", "\n".join(lines))


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
    return _quote("Outputs", "\n".join(lines))


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
    return _quote("What counts as done", "\n".join(lines))


def _describe_place(content: StepPrompt) -> str:
    lines = [
        f"Your folder is in a git worktree of its own, on the branch {content.branch}: {content.tree}",
        "Change files only there. You need not commit: deepwork commits what you leave.",
    ]
    if content.ports:
        first, last = content.ports[0], content.ports[-1]
        lines.append(f"Servers that you start may use the ports {first} to {last}, and no others.")
    return _quote("Where you work", "\n".join(lines))


def _quote(title: str, text: str | None) -> str:
    return f"# {title}\n\n{text.strip()}" if text and text.strip() else ""
