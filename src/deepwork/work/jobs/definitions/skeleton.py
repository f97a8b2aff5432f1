"""Writes a small valid job as a starting point."""

from __future__ import annotations

from pathlib import Path
from string import Template

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.files.paths import confine
from deepwork.kernel.files.private import to_storage_error, write_atomically
from deepwork.kernel.files.problems import format_value
from deepwork.work.jobs.definitions.models import JOB_FILE, is_identifier

_JOB_TEMPLATE = Template("""\
# Check this file with `deepwork jobs validate $name`.
name: $name
version: "0.1.0"
summary: Say in one line when to use this job.

common_job_info_provided_to_all_steps_at_runtime: |
  What every step should know: where things are, who reads the result, what to avoid.

workflows:
  - name: main
    summary: Say what this workflow produces.
    steps:
      - write

steps:
  - id: write
    name: Write the report
    description: Write a short report about what the user asked.
    instructions_file: steps/write.md
    inputs:
      - name: topic
        description: What the report is about.
    outputs:
      report.md:
        type: file
        description: The report, one page of Markdown.
        required: true
    reviews:
      - run_each: report.md
        quality_criteria:
          Answers the question: Does the first paragraph answer what the user asked?
""")

_INSTRUCTIONS_TEXT = """\
# Write the report

Say what the step is for, where to look, what to ask the user, and what the file must contain.

Write `report.md`, then call `finished_step` with `{"report.md": "report.md"}`.
"""


def write_skeleton(project_root: Path, name: str) -> list[Path]:
    """Create a new job in the project; raise if its folder exists."""
    if not is_identifier(name):
        raise InvalidInput(
            f"{format_value(name)} is not a valid job name.",
            suggestion="Use lower-case letters, digits and underscores, beginning with a letter.",
        )
    folder = project_root / STATE_FOLDER / "jobs" / name
    confine(project_root, str(folder.relative_to(project_root)), must_exist=False)  # no links out of it
    _create_folder(folder)
    written = [folder / "steps" / "write.md", folder / JOB_FILE]
    # job.yml last: without it the folder is not recognized as a job.
    for path, text in zip(written, (_INSTRUCTIONS_TEXT, _JOB_TEMPLATE.substitute(name=name)), strict=True):
        write_atomically(path, text.encode(), mode=0o644)
    return written


def _create_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / "steps").mkdir()
    except FileExistsError:
        raise NotAllowed(
            f"{folder} already exists.", suggestion="Choose another name, or edit the existing job."
        ) from None
    except OSError as error:
        raise to_storage_error("create", folder, error) from error
