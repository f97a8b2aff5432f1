"""`deepwork provenance`: verify what trailers of commits claim, and export who made commits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepwork import __version__
from deepwork.delivery.provenance.exports import ExportedCommit, build_note, build_statement, build_trace
from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.command_groups import CommandGroup
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable

if TYPE_CHECKING:
    from deepwork.delivery.provenance.models import VerifiedCommit

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
        found = app.verifier.verify(range_text, is_required=is_required)
    bad = [each for each in found if _is_bad(each, is_required=is_required)]
    if as_json:
        print_answer(_build_answer(found, is_verified=not bad), as_json=True)
    else:
        _print_summary(found, bad, is_required=is_required)
    sys.exit(1 if bad else 0)


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
        commits = app.why.export_commits(range_text, includes_prompts=include_prompts)
        if write:
            _write_notes(app.settings.repository_root, commits)
    documents = [_BUILDERS[format_name](commit) for commit in commits]
    if as_json:
        print_answer({"format": format_name, "written": write, "documents": documents}, as_json=True)
        return
    if write:
        print(f"Wrote {len(commits)} notes to {_NOTES_REF}; show them with `git log --notes=deepwork`.")
        return
    for document in documents:
        print_answer(document, as_json=True)


def _write_notes(root: Path, commits: Sequence[ExportedCommit]) -> None:
    from deepwork.kernel.environment import build_child_environment
    from deepwork.kernel.git.command import Git
    from deepwork.kernel.git.notes import write_notes

    notes = {commit.hash: build_note(commit) for commit in commits}
    if notes:
        git = Git(root, environment=build_child_environment())
        write_notes(git, _NOTES_REF, notes, "Add notes of deepwork", int(time.time()))


def _describe_note(commit: ExportedCommit) -> dict[str, Any]:
    return {"commit": commit.hash, "note": build_note(commit)}


_BUILDERS: dict[str, Callable[[ExportedCommit], dict[str, Any]]] = {
    "agent-trace": lambda commit: build_trace(commit, __version__),
    "in-toto": build_statement,
    "git-notes": _describe_note,
}


def _is_bad(commit: VerifiedCommit, *, is_required: bool) -> bool:
    return commit.verdict.is_bad or (is_required and commit.verdict == "unlinked")


def _build_answer(found: list[VerifiedCommit], *, is_verified: bool) -> dict[str, Any]:
    return {"verified": is_verified, "counts": _count(found), "commits": [_to_row(each) for each in found]}


def _count(found: list[VerifiedCommit]) -> dict[str, int]:
    verdicts = [each.verdict.value for each in found]
    return {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}


def _to_row(commit: VerifiedCommit) -> dict[str, Any]:
    row = {
        "commit": commit.hash,
        "subject": commit.subject,
        "verdict": commit.verdict.value,
        "claims": [_drop_nulls(claim._asdict()) for claim in commit.claims],
        "links": [
            _drop_nulls({**match._asdict(), "known_by": match.known_by.value}) for match in commit.matches
        ],
        "problems": list(commit.problems),
    }
    return {name: value for name, value in row.items() if value not in ([], ())}


def _drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _print_summary(found: list[VerifiedCommit], bad: list[VerifiedCommit], *, is_required: bool) -> None:
    unlinked = [] if is_required else [each for each in found if each.verdict == "unlinked"]
    for commit in (*bad, *unlinked[:_MAX_UNLINKED]):
        print(to_printable(f"{commit.verdict.value:<12} {commit.hash[:12]} {commit.subject}"))
        for problem in commit.problems:
            print(to_printable(f"    {problem}"))
    if len(unlinked) > _MAX_UNLINKED:
        print(f"... and {len(unlinked) - _MAX_UNLINKED} more unlinked commits; see --json.")
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(_count(found).items()))
    print(f"{len(found)} commits: {counts}." if found else "There are no commits in this range.")
