"""Renders a workflow as text for a terminal or as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deepwork.kernel.foreign_text import escape_mermaid
from deepwork.work.jobs.definitions.models import (
    Job,
    JobWorkflow,
    OutputSpec,
    OutputType,
    Step,
    WorkflowEntry,
)


def render_text(job: Job, workflow: JobWorkflow) -> str:
    """Render the steps in order with their files; concurrent steps are joined by a bracket."""
    width = max(map(len, workflow.step_ids))
    numbered = enumerate(workflow.entries, start=1)
    drawn = [line for number, entry in numbered for line in _render_entry(job, number, entry, width)]
    return "\n".join([f"{job.name}/{workflow.name}: {_to_one_line(workflow.summary)}", *drawn])


def render_mermaid(job: Job, workflow: JobWorkflow) -> str:
    """Render a Mermaid flowchart: thick arrows for the order, dotted arrows for files passed on."""
    nodes = {id: f"s{number}" for number, id in enumerate(workflow.step_ids, start=1)}
    lines = [
        "flowchart TD",
        *(
            line
            for number, entry in enumerate(workflow.entries)
            for line in _render_nodes(job, number, entry, nodes)
        ),
        *_render_order(workflow, nodes),
        *_render_files(job, workflow, nodes),
    ]
    return "\n".join(lines)


def _render_entry(job: Job, number: int, entry: WorkflowEntry, width: int) -> Iterator[str]:
    for index, id in enumerate(entry.steps):
        place = f"{number:>3}." if index == 0 else "    "
        bracket = _choose_bracket(index, len(entry.steps)) if entry.is_concurrent else " "
        yield f"{place} {bracket} {id:<{width}}  {_describe_step(job.find_step(id))}".rstrip()


def _choose_bracket(index: int, size: int) -> str:
    if size == 1:
        return "╶"
    return {0: "┌", size - 1: "└"}.get(index, "├")


def _describe_step(step: Step | None) -> str:
    """Describe the inputs and outputs of a step, and whether it is reviewed."""
    if step is None:
        return ""
    parts = [_to_one_line(step.name)]
    if step.file_inputs:
        parts.append("← " + ", ".join(f"{given.file} of {given.from_step}" for given in step.file_inputs))
    if step.outputs:
        parts.append("→ " + ", ".join(map(_format_output, step.outputs)))
    if step.reviews:
        parts.append("✓ reviewed")
    return "  ".join(parts)


def _to_one_line(text: str) -> str:
    """Join the lines of a text: a line of its own would look like a part of the drawing."""
    return " ".join(text.split())


def _format_output(output: OutputSpec) -> str:
    several = "…" if output.type is OutputType.FILES else ""
    return f"{output.name}{several}" if output.required else f"({output.name}{several})"


def _render_nodes(job: Job, number: int, entry: WorkflowEntry, nodes: dict[str, str]) -> Iterator[str]:
    boxes = [f'    {nodes[id]}["{_format_label(job.find_step(id), id)}"]' for id in entry.steps]
    if not entry.is_concurrent:
        yield from boxes
        return
    yield f'    subgraph g{number}["at the same time"]'
    yield from (f"    {box}" for box in boxes)
    yield "    end"


def _render_order(workflow: JobWorkflow, nodes: dict[str, str]) -> Iterator[str]:
    ends = [
        f"g{number}" if entry.is_concurrent else nodes[entry.steps[0]]
        for number, entry in enumerate(workflow.entries)
    ]
    return (f"    {one} ==> {next_one}" for one, next_one in pairwise(ends))


def _render_files(job: Job, workflow: JobWorkflow, nodes: dict[str, str]) -> Iterator[str]:
    for step in filter(None, map(job.find_step, workflow.step_ids)):
        for given in step.file_inputs:
            if given.from_step in nodes:
                yield f'    {nodes[given.from_step]} -. "{escape_mermaid(given.file)}" .-> {nodes[step.id]}'


def _format_label(step: Step | None, id: str) -> str:
    if step is None:
        return escape_mermaid(id)
    reviewed = "<br/>reviewed" if step.reviews else ""
    return f"{escape_mermaid(step.name)}{reviewed}"
