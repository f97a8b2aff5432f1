"""`deepwork provenance`: verify what trailers of commits claim, and export who made commits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from deepwork.delivery.provenance.rules import CommitVerdict
from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable

_MAX_UNLINKED = 20
_FORMATS = ("agent-trace", "in-toto", "git-notes")
_NOTES_REF = "refs/notes/deepwork"


@click.group(cls=CommandGroup)
def provenance() -> None:
    """Provenance: verify and export which tasks made commits."""


@provenance.command("verify")
@click.argument("range_text", metavar="RANGE")
@click.option(
    "--require", "is_required", is_flag=True, help="Fail also for commits that no task is known of."
)
@place_options
@json_option
def verify_provenance(range_text: str, is_required: bool, as_json: bool, path: str, **place: Any) -> None:
    """Compare the trailers of the commits in RANGE, A..B or one commit, with what the tasks they name made.

    Exit code 1 if a trailer is not true, or cannot be compared in a shallow clone.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "verify_provenance", {"range": range_text, "required": is_required})
    if as_json:
        print_answer(answer, as_json=True)
    else:
        _print_summary(answer, is_required=is_required)
    sys.exit(0 if answer["verified"] else 1)


@provenance.command("export")
@click.argument("range_text", metavar="RANGE")
@click.option(
    "--format", "format_name", type=click.Choice(_FORMATS), required=True, help="What other programs read."
)
@click.option("--write", is_flag=True, help="With git-notes: write them to refs/notes/deepwork.")
@click.option(
    "--include-prompts", is_flag=True, help="Also prompts, outcomes, comments, and where transcripts are."
)
@place_options
@json_option
def export_provenance(
    range_text: str,
    format_name: str,
    write: bool,
    include_prompts: bool,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Print who made the commits of RANGE, one JSON document per line; nobody has signed them.

    Commits that no task is known of are left out.
    """
    if write and format_name != "git-notes":
        raise click.UsageError("--write is only for --format git-notes.")
    with open_application(path, place, reads=True, quiet=True) as app:
        given = {"range": range_text, "include_prompts": include_prompts}
        answer = (
            call_operation(app, "write_provenance_notes", given)
            if write
            else call_operation(app, "export_provenance", {**given, "format": format_name})
        )
    documents = answer["documents"]
    if as_json:
        print_answer(answer, as_json=True)
    elif write:
        print(f"Wrote {len(documents)} notes to {_NOTES_REF}; show them with `git log --notes=deepwork`.")
    else:
        for document in documents:
            print_answer(document, as_json=True)


def _print_summary(answer: Mapping[str, Any], *, is_required: bool) -> None:
    found = answer["commits"]
    bad = [each for each in found if CommitVerdict(each["verdict"]).fails(is_required=is_required)]
    unlinked = [] if is_required else [each for each in found if each["verdict"] == "unlinked"]
    for commit in (*bad, *unlinked[:_MAX_UNLINKED]):
        print(to_printable(f"{commit['verdict']:<12} {commit['commit'][:12]} {commit['subject']}"))
        for problem in commit.get("problems", ()):
            print(to_printable(f"    {problem}"))
    if len(unlinked) > _MAX_UNLINKED:
        print(f"... and {len(unlinked) - _MAX_UNLINKED} more unlinked commits; see --json.")
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(answer["counts"].items()))
    print(f"{len(found)} commits: {counts}." if found else "There are no commits in this range.")
