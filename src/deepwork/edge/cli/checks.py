"""`deepwork check` and `deepwork proofs`: run the checks of a project, and show what they proved."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import (
    CommandGroup,
    Function,
    json_option,
    passphrase_option,
    place_options,
)
from deepwork.edge.cli.framework.output import print_answer, print_listed, print_said, to_printable
from deepwork.edge.cli.framework.progress import ProgressLines
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.gates.checks.models import CheckVerdict, ProofRequest, ProofSubject
from deepwork.gates.checks.responses import ProofSummary
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.foreign_text import split_lines

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.gates.checks.service import CheckService

_PAGE = 500
_RED, _NEEDS_PERSON = 1, 3
_PERSONS_TURN = (Code.CHECKS_GUARDED, Code.CHECKS_NOT_TRUSTED)


def options(command: Function) -> Function:
    """Add --path, --db, --global and --json."""
    return place_options(json_option(command))


@click.command()
@click.argument("task", required=False)
@click.option("--only", multiple=True, metavar="NAME", help="Only this check; repeat it for several.")
@click.option("--clean", is_flag=True, help="Run in a fresh copy of the tree, without ignored files.")
@options
def check(task: str | None, only: tuple[str, ...], clean: bool, as_json: bool, **place: Any) -> None:
    """Prove the checks of a TASK, or all checks of this tree.

    A check that passed before with the same files and the same definition does not run again.
    Exit code: 0 all pass, 1 one does not, 3 a person has to trust the checks, or to approve changes to
    guarded files.
    """
    with open_application(place.pop("path"), place) as app:
        checks, request = _build_task_request(app, task, only) if task else _build_tree_request(app, only)
        try:
            with use_call(Call(tool="check", report_progress=ProgressLines())):
                proofs = checks.prove(request, clean=clean)
        except GateClosed as closed:
            _print_closed(closed, as_json=as_json)
            sys.exit(_NEEDS_PERSON if closed.code in _PERSONS_TURN else _RED)
    rows = [_to_row(ProofSummary.of_proof(proof).model_dump()) for proof in proofs]
    if rows or as_json:
        print_answer({"checks": rows}, as_json=as_json)
    else:
        print("No checks are defined here. See `.deepwork/checks.yml` in the documentation.")


@click.group(cls=CommandGroup)
def proofs() -> None:
    """Proofs: what checks said about which files."""


@proofs.command("list")
@click.option("--check", "check_name", metavar="NAME", help="Only of this check.")
@click.option(
    "--verdict", type=click.Choice([str(each) for each in CheckVerdict]), help="Only with this verdict."
)
@click.option("--task", metavar="ID", help="Only those with which this task counted as done.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, metavar="N", help="At most this many.")
@options
def list_proofs(
    check_name: str | None, verdict: str | None, task: str | None, limit: int, as_json: bool, **place: Any
) -> None:
    """List the newest proofs."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        id = resolve_id(app.database, "any_task", task) if task else None
        found = _list_pages(app, limit, {"check": check_name, "verdict": verdict, "task_id": id})
    none = "There are no proofs. `deepwork check` makes some."
    print_listed({"proofs": found}, "proofs", list(map(_to_row, found)), none, as_json=as_json)


@proofs.command("show")
@click.argument("proof_id", metavar="ID")
@options
def show_proof(proof_id: str, as_json: bool, **place: Any) -> None:
    """Show a proof with the output of its check, and what counted as done with it."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_proof", {"id": proof_id})
    if as_json:
        print_answer(answer, as_json=True)
        return
    text = answer.pop("output")
    print_answer({key: value for key, value in answer.items() if value != []}, as_json=False)
    print("\nOutput:" if text is not None else "\nIts output was removed.")
    _print_text(text or "")


@proofs.command("verify")
@click.argument("proof_ids", nargs=-1, metavar="[ID]...")
@options
def verify_proofs(proof_ids: tuple[str, ...], as_json: bool, **place: Any) -> None:
    """Compare these proofs, or the newest 100, with the files they are about; exit code 1 if one differs."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        rows = call_operation(app, "verify_proofs", {"ids": list(proof_ids) or None})["proofs"]
    bad = [row for row in rows if row["problems"]]
    lines = [f"{row['id']} {row['check']}: {' '.join(row['problems'])}" for row in bad]
    counts = f"{len(rows)} proofs compared, {len(bad)} with problems."
    print_said({"proofs": rows}, *lines, counts, as_json=as_json)
    sys.exit(1 if bad else 0)


@proofs.command("export")
@click.argument("proof_ids", nargs=-1, metavar="[ID]...")
@click.option("--format", "_format", type=click.Choice(["in-toto"]), default="in-toto", show_default=True)
@click.option("--task", metavar="ID", help="The proofs with which this task counted as done.")
@options
def export_proofs(
    proof_ids: tuple[str, ...], _format: str, task: str | None, as_json: bool, **place: Any
) -> None:
    """Print proofs as in-toto statements, one per line; nobody has signed them."""
    with open_application(place.pop("path"), place, reads=True, quiet=True) as app:
        id = resolve_id(app.database, "any_task", task) if task else None
        answer = call_operation(app, "export_proofs", {"ids": list(proof_ids), "task_id": id})
    if as_json:
        print_answer(answer, as_json=True)
        return
    for statement in answer["statements"]:
        print_answer(statement, as_json=True)


@proofs.command("waive")
@click.argument("proof_id", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Why it may count; stored with the proof.")
@passphrase_option
@options
def waive_proof(proof_id: str, reason: str, passphrase_stdin: bool, as_json: bool, **place: Any) -> None:
    """Let exactly these files count as passed although the check did not pass."""
    with open_application(place.pop("path"), place) as app:
        call = build_act_call("waive_proof", passphrase_stdin=passphrase_stdin)
        answer = call_operation(app, call.tool, {"proof_id": proof_id, "reason": reason}, call)
    print_said(
        answer, f"Proof {answer['id']} of check {answer['check']} counts as passed now.", as_json=as_json
    )


def _list_pages(app: Application, limit: int, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List up to this many proofs, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    while len(found) < limit:
        page = {"limit": min(limit - len(found), _PAGE), "cursor": cursor}
        answer = call_operation(app, "list_proofs", {**given, **page})
        found += answer["proofs"]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found


def _build_task_request(
    app: Application, task: str, only: tuple[str, ...]
) -> tuple[CheckService, ProofRequest]:
    """Ask what completing the task has to prove: one of a plan, or a tracked one."""
    id = resolve_id(app.database, "any_task", task)
    prover = app.tracked_task_prover if id.startswith("tt_") else app.task_prover
    checks, request = prover.find_request(id)
    names = tuple(name for name in request.names if not only or name in only)
    return checks, replace(request, names=names, attempt=None, wait_seconds=None)


def _build_tree_request(app: Application, only: tuple[str, ...]) -> tuple[CheckService, ProofRequest]:
    """Ask about the tree of the current folder, with the checks of its last commit."""
    tree = app.settings.project_root
    base = _resolve_head(tree)
    names = only or (tuple(app.checks.load_definitions(tree, base).checks) if base else ())
    if base is None:
        app.checks.require_defined(tree, None, names)
    request = ProofRequest(ProofSubject("command", ""), tree, base or "", names, (), wait_seconds=None)
    return app.checks, request


def _print_closed(closed: GateClosed, *, as_json: bool) -> None:
    if as_json:
        print_answer({"error": closed.to_dict()}, as_json=True)
        return
    print(to_printable(closed.message))
    if passed := closed.evidence.get("passed"):
        print(to_printable(f"Passed: {', '.join(passed)}."))
    for entry in closed.evidence.get("checks", ()):
        if entry["output"]:
            print(f"\n{entry['name']}:")
            _print_text(entry["output"])
    print(to_printable(closed.suggestion), file=sys.stderr)


def _print_text(text: str) -> None:
    for line in split_lines(text):
        print(to_printable(line))


def _to_row(proof: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{key: proof[key] for key in ("id", "check", "verdict")},
        "tests": proof.get("tests_run"),
        "seconds": round(proof["duration_ms"] / 1000, 1),
        "created_at": proof["created_at"],
    }


def _resolve_head(tree: Path) -> str | None:
    from deepwork.kernel.environment import build_child_environment
    from deepwork.kernel.files.repositories import find_tree_root
    from deepwork.kernel.git.command import Git
    from deepwork.kernel.git.refs import resolve_commit

    if find_tree_root(tree) is None:
        return None
    return resolve_commit(Git(tree, environment=build_child_environment()), "HEAD")
