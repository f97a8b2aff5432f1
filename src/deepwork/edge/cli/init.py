"""`deepwork init`: create the settings file and, on request, examples in a project."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from deepwork.edge.cli.framework.options import json_option, load_command_settings, project_option
from deepwork.edge.cli.framework.output import print_answer, to_printable


@click.command()
@click.option("--example-job", is_flag=True, help="Write an example job.")
@click.option("--example-review", is_flag=True, help="Write an example .deepreview file with two rules.")
@project_option
@json_option
def init(example_job: bool, example_review: bool, path: str, as_json: bool) -> None:
    """Set up deepwork in a project: write settings, an ignore file for the store and, on request, examples.

    Existing files are left untouched; running this again is harmless.
    """
    from deepwork.views.setup.project import EXAMPLE_JOB, init_project

    root = load_command_settings(path).project_root
    made = init_project(root, example_job=example_job, example_review=example_review)
    steps = _build_next_steps(EXAMPLE_JOB if example_job else None, example_review)
    if as_json:
        print_answer({"project": str(root), **asdict(made), "next": list(steps)}, as_json=True)
        return
    rows: list[tuple[str, Any]] = [("wrote", made.written), ("kept", made.kept)]
    for word, paths in rows:
        for each in paths:
            print(f"{word:<6} {to_printable(each)}")
    print("\nNext:")
    for command, purpose in steps.items():
        print(f"  {command:<{max(map(len, steps))}}  {purpose}")


def _build_next_steps(job: str | None, has_rules: bool) -> dict[str, str]:
    """Return the commands to run next, and what each is for."""
    return {
        "deepwork setup --detect": "list the clients found here, then: deepwork setup CLIENT",
        **({f"deepwork jobs show {job}": "look at the example, then run it from your client"} if job else {}),
        **({"deepwork review": "list the reviews that your changes need"} if has_rules else {}),
        "deepwork doctor": "check the installation",
    }
