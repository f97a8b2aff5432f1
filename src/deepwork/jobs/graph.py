"""A workflow drawn: as text for a terminal, or as Mermaid for a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from deepwork.jobs.models import Entry, Job, OutputSpec, OutputType, Step, Workflow

_UNSAFE = '"#&<>`\\'


def as_text(job: Job, workflow: Workflow) -> str:
    """The steps from first to last, those of one group joined by a bracket, with what each hands on."""
    width = max(map(len, workflow.step_ids))
    numbered = enumerate(workflow.entries, start=1)
    drawn = [line for number, entry in numbered for line in _entry_lines(job, number, entry, width)]
    return "\n".join([f"{job.name}/{workflow.name}: {workflow.summary}", *drawn])


def as_mermaid(job: Job, workflow: Workflow) -> str:
    """A flowchart: thick arrows for the order, dotted ones for files that travel further."""
    nodes = {id: f"s{number}" for number, id in enumerate(workflow.step_ids, start=1)}
    lines = [
        "flowchart TD",
        *(
            line
            for number, entry in enumerate(workflow.entries)
            for line in _boxes(job, number, entry, nodes)
        ),
        *_arrows(workflow, nodes),
        *_files(job, workflow, nodes),
    ]
    return "\n".join(lines)


def _entry_lines(job: Job, number: int, entry: Entry, width: int) -> Iterator[str]:
    for index, id in enumerate(entry.steps):
        place = f"{number:>3}." if index == 0 else "    "
        bracket = _bracket(index, len(entry.steps)) if entry.is_concurrent else " "
        yield f"{place} {bracket} {id:<{width}}  {_about(job.step(id))}".rstrip()


def _bracket(index: int, size: int) -> str:
    if size == 1:
        return "╶"
    return {0: "┌", size - 1: "└"}.get(index, "├")


def _about(step: Step | None) -> str:
    """What a step takes, what it writes, and whether that is reviewed."""
    if step is None:
        return ""
    parts = [step.name]
    if step.file_inputs:
        parts.append("← " + ", ".join(f"{given.file} of {given.from_step}" for given in step.file_inputs))
    if step.outputs:
        parts.append("→ " + ", ".join(map(_written, step.outputs)))
    if step.reviews:
        parts.append("✓ reviewed")
    return "  ".join(parts)


def _written(output: OutputSpec) -> str:
    several = "…" if output.type is OutputType.FILES else ""
    return f"{output.name}{several}" if output.required else f"({output.name}{several})"


def _boxes(job: Job, number: int, entry: Entry, nodes: dict[str, str]) -> Iterator[str]:
    boxes = [f'    {nodes[id]}["{_label(job.step(id), id)}"]' for id in entry.steps]
    if not entry.is_concurrent:
        yield from boxes
        return
    yield f'    subgraph g{number}["at the same time"]'
    yield from (f"    {box}" for box in boxes)
    yield "    end"


def _arrows(workflow: Workflow, nodes: dict[str, str]) -> Iterator[str]:
    ends = [
        f"g{number}" if entry.is_concurrent else nodes[entry.steps[0]]
        for number, entry in enumerate(workflow.entries)
    ]
    return (f"    {one} ==> {next_one}" for one, next_one in pairwise(ends))


def _files(job: Job, workflow: Workflow, nodes: dict[str, str]) -> Iterator[str]:
    for step in filter(None, map(job.step, workflow.step_ids)):
        for given in step.file_inputs:
            if given.from_step in nodes:
                yield f'    {nodes[given.from_step]} -. "{_safe(given.file)}" .-> {nodes[step.id]}'


def _label(step: Step | None, id: str) -> str:
    if step is None:
        return _safe(id)
    reviewed = "<br/>reviewed" if step.reviews else ""
    return f"{_safe(step.name)}{reviewed}"


def _safe(text: str) -> str:
    """Text that means nothing to Mermaid or to the page it is on."""
    return "".join(
        f"#{ord(character)};" if character in _UNSAFE or not character.isprintable() else character
        for character in text
    )
