"""The outputs of a step: where an agent writes them, and what it says about them in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deepwork.delivery.runner.attempt_files import DamagedFiles, open_to_read
from deepwork.kernel.config import TMP_FOLDER
from deepwork.kernel.errors import InvalidInput
from deepwork.work.jobs.responses import ActiveStep, ExpectedOutput

OUTPUTS_VARIABLE: Final = "DEEPWORK_OUTPUTS"
_MAX_BYTES = 1_000_000
_MAX_FILES = 1_000
_REPORT_KEYS = ("outputs", "notes", "review_results")


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
