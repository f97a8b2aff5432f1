"""Writes projects with jobs, for tests that run jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def make_step(
    id: str, outputs: dict[str, Any] | None = None, reviews: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Make a step that delivers `<id>.md` by default."""
    delivered = {f"{id}.md": {"type": "file", "description": f"what {id} writes", "required": True}}
    return {
        "id": id, "name": id.title(), "description": f"does {id}", "instructions_file": f"steps/{id}.md",
        "outputs": delivered if outputs is None else outputs, "reviews": reviews or [], **more,
    }  # fmt: skip


def write_job(root: Path, name: str, steps: list[dict[str, Any]], **workflows: list[Any]) -> Path:
    """Write a job; by default with one workflow `main` of all steps in order."""
    folder = root / ".deepwork" / "jobs" / name
    (folder / "steps").mkdir(parents=True, exist_ok=True)
    named = workflows or {"main": [each["id"] for each in steps]}
    definition = {
        "name": name, "version": "1.0.0", "summary": f"the job {name}",
        "common_job_info_provided_to_all_steps_at_runtime": f"about {name}",
        "steps": steps,
        "workflows": [{"name": key, "summary": f"workflow {key}", "steps": order} for key, order in named.items()],
    }  # fmt: skip
    # JSON is YAML too.
    (folder / "job.yml").write_text(json.dumps(definition, indent=1))
    for each in steps:
        (folder / each["instructions_file"]).write_text(f"Do {each['id']}.")
    return folder


def make_file_output(required: bool = True) -> dict[str, Any]:
    return {"type": "file", "description": "a file", "required": required}


def make_files_output(required: bool = True) -> dict[str, Any]:
    return {"type": "files", "description": "files", "required": required}


def make_review(run_each: str = "step", **criteria: str) -> dict[str, Any]:
    return {"run_each": run_each, "quality_criteria": criteria or {"Good": "Is it good?"}}


def write_files(root: Path, *names: str, text: str = "text") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
