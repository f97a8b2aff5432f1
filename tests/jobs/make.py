"""Makes jobs for tests; every value has a default."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from deepwork.work.jobs.definitions.catalog import JobCatalog

INFO = "common_job_info_provided_to_all_steps_at_runtime"


def make_step(id: str = "write", **given: Any) -> dict[str, Any]:
    """A step as data: one file, nothing reviewed."""
    ordinary: dict[str, Any] = {
        "id": id,
        "name": id.title(),
        "description": f"To {id}.",
        "instructions_file": f"steps/{id}.md",
        "outputs": {f"{id}.md": make_output()},
        "reviews": [],
    }
    return ordinary | given


def make_output(type: str = "file", required: bool = True) -> dict[str, Any]:
    return {"type": type, "description": "What was written.", "required": required}


def make_review(run_each: str = "step", **given: Any) -> dict[str, Any]:
    return {"run_each": run_each, "quality_criteria": {"Good": "Is it good?"}, **given}


def make_workflow(*steps: Any, name: str = "main") -> dict[str, Any]:
    return {"name": name, "summary": "All of it.", "steps": list(steps)}


def make_job(*steps: dict[str, Any], name: str = "report", **given: Any) -> dict[str, Any]:
    """A job as data, with one workflow of all its steps in order."""
    chosen = list(steps) or [make_step()]
    ordinary: dict[str, Any] = {
        "name": name,
        "version": "1.0.0",
        "summary": "Write a report.",
        INFO: "Be brief.",
        "steps": chosen,
        "workflows": [make_workflow(*(given.get("id", "write") for given in chosen))],
    }
    return ordinary | given


def write_job(folder: Path, definition: dict[str, Any] | str) -> Path:
    """Write job.yml, and instructions for every step that names a file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = definition if isinstance(definition, str) else yaml.safe_dump(definition, sort_keys=False)
    (folder / "job.yml").write_text(text, encoding="utf-8")
    if isinstance(definition, dict):
        _write_instructions(folder, definition.get("steps"))
    return folder


def write_project_job(root: Path, definition: dict[str, Any] | str, directory: str = "") -> Path:
    """Write a job of the project; its directory has its name by default."""
    name = directory or str(definition["name"] if isinstance(definition, dict) else "broken")
    return write_job(root / ".deepwork" / "jobs" / name, definition)


def make_catalog(root: Path, *additional: Path) -> JobCatalog:
    return JobCatalog(root, lambda: additional)


def _write_instructions(folder: Path, steps: Sequence[dict[str, Any]] | Any) -> None:
    for given in steps if isinstance(steps, list) else []:
        path = given.get("instructions_file") if isinstance(given, dict) else None
        if isinstance(path, str) and path and not path.startswith(("/", "..", "~")) and "\0" not in path:
            with suppress(OSError):  # no file can have this path: it is a folder's, or goes through a file
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(f"# {given.get('id')}\n\nDo it.\n", encoding="utf-8")
