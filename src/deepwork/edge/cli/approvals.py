"""`deepwork approvals`: what waits for a person, their decisions, and how they prove to be one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import (
    CommandGroup,
    json_option,
    key_option,
    passphrase_option,
    place_options,
)
from deepwork.edge.cli.framework.output import print_answer, print_lines, print_listed, print_said
from deepwork.edge.cli.framework.proofs import build_person_call, read_passphrase
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.foreign_text import split_lines
from deepwork.kernel.user_settings import CredentialKind

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application


_MAX_LISTED = 500
comment_option = click.option(
    "--comment", type=TextParam(may_be_empty=False), metavar="TEXT|-", help="For the agent, which reads it."
)


@click.group(cls=CommandGroup)
def approvals() -> None:
    """What waits for your approval, what you decided, and how you prove to be a person."""


@approvals.command("list")
@click.option("--all", "whole", is_flag=True, help="Also those that were decided or are out of date.")
@click.option("--workflow", metavar="ID", help="Only of this plan, tracked workflow or job session.")
@place_options
@json_option
def list_approvals(whole: bool, workflow: str | None, as_json: bool, path: str, **place: Any) -> None:
    """List what waits for your approval, the last asked first."""
    given = {"all": whole, "workflow_id": workflow, "limit": _MAX_LISTED}
    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = call_operation(app, "list_approvals", given)
    keys = ("id", "status", "kind", "title", "workflow_id", "asked_by", "asked_at")
    rows = [{key: each.get(key) for key in keys} for each in found["approvals"]]
    print_listed(found, "approvals", rows, "Nothing waits for your approval.", as_json=as_json)


@approvals.command("show")
@click.argument("id", metavar="APPROVAL")
@click.option("--whole", is_flag=True, help="Show all, even if only a part differs from what was approved.")
@place_options
@json_option
def show_approval(id: str, whole: bool, as_json: bool, path: str, **place: Any) -> None:
    """Show what is to be approved: all of it, or what differs from what was approved before."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        given = {"id": resolve_id(app.database, "approval", id), "whole": whole}
        found = call_operation(app, "get_approval", given)
    print_said(found, *_render(found), as_json=as_json)


@approvals.command()
@click.argument("id", metavar="[APPROVAL]", required=False)
@comment_option
@passphrase_option
@key_option
@place_options
@json_option
def approve(id: str | None, **given: Any) -> None:
    """Approve exactly what an approval shows; without APPROVAL, the only one that waits.

    Exit code 1 if it could not be carried out, such as when the work was changed after it was shown.
    """
    _decide("give_approval", id, **given)


@approvals.command()
@click.argument("id", metavar="[APPROVAL]", required=False)
@comment_option
@passphrase_option
@key_option
@place_options
@json_option
def refuse(id: str | None, **given: Any) -> None:
    """Refuse what an approval shows; without APPROVAL, the only one that waits."""
    _decide("refuse_approval", id, **given)


@approvals.command()
@click.argument("method", type=click.Choice(["passphrase", "passkey"]))
@passphrase_option
@json_option
@place_options
def enroll(method: str, passphrase_stdin: bool, as_json: bool, **place: Any) -> None:
    """Enroll a passphrase, or change it; passkeys are enrolled in the dashboard.

    Every decision needs the strongest proof that is enrolled. Changing it needs the one before: with
    --passphrase-stdin the first line is the old passphrase, if there is one, and the next the new one.
    """
    if method == "passkey":
        raise NotAllowed(
            "A passkey is created by a browser.",
            suggestion="Open the page Approvals of the dashboard under the name localhost: "
            "deepwork dashboard --open --host localhost",
        )
    from deepwork.gates.approvals.credentials import hash_passphrase

    with open_application(place.pop("path"), place) as app:
        call = build_person_call(
            app.database, "enroll_passphrase", passphrase_stdin=passphrase_stdin, is_enrolling=True
        )
        new = read_passphrase("New passphrase", from_stdin=passphrase_stdin, confirms=True)
        answer = call_operation(app, call.tool, {"verifier": hash_passphrase(new)}, call)
    print_said(
        answer,
        f"Enrolled. Decisions need a {answer['required']} now, in every project of yours.",
        "Choose it in your settings too, for new stores: approvals: {proof: passphrase}",
        as_json=as_json,
    )


@approvals.command()
@click.argument("method", type=click.Choice([CredentialKind.TOKEN.value, CredentialKind.PASSPHRASE.value]))
@passphrase_option
@json_option
@place_options
def lower(method: str, passphrase_stdin: bool, as_json: bool, **place: Any) -> None:
    """Remove every enrolled proof that is stronger than METHOD; that needs the strongest one."""
    with open_application(place.pop("path"), place, reads=True) as app:
        call = build_person_call(
            app.database, "lower_proof", passphrase_stdin=passphrase_stdin, is_enrolling=True
        )
        answer = call_operation(app, call.tool, {"method": method}, call)
    said = [f"Decisions need a {answer['required']} now."]
    if answer["required"] != method:
        said.append(f"Your settings demand it; change approvals.proof to {method} there, too.")
    print_said(answer, *said, as_json=as_json)


@approvals.command()
@json_option
@place_options
def proof(as_json: bool, **place: Any) -> None:
    """Show which proof your decisions need, and what is enrolled."""
    with open_application(place.pop("path"), place, reads=True, quiet=True) as app:
        state = call_operation(app, "get_person_proof", {})
    enrolled = [
        {**{key: each[key] for key in ("id", "method", "name")}, "since": each["created_at"]}
        for each in state["credentials"]
    ]
    answer = {"required": state["required"], "settings": state["settings"], "enrolled": enrolled}
    print_answer(answer, as_json=as_json)


def _decide(
    action: str,
    id: str | None,
    comment: str | None,
    idempotency_key: str | None,
    passphrase_stdin: bool,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    from deepwork.kernel.database.idempotency import check_key

    with open_application(path, place, reads=True, quiet=as_json) as app:
        chosen = resolve_id(app.database, "approval", id) if id else _choose_only(app)
        key = None if idempotency_key is None else check_key(idempotency_key)
        arguments = {"approval_id": chosen} | ({"comment": comment} if comment else {})
        call = build_person_call(app.database, action, key, passphrase_stdin=passphrase_stdin)
        answer = call_operation(app, action, arguments, call)
    done = "Approved" if answer["status"] == "given" else "Refused"
    print_said(answer, f"{done} {chosen}. {answer.get('effect') or ''}".rstrip(), as_json=as_json)
    if answer.get("carried_out") is False:
        sys.exit(1)


def _choose_only(app: Application) -> str:
    """Return the only approval that waits, after the person has seen what it shows."""
    found = call_operation(app, "list_approvals", {"limit": 2})
    if found["total"] != 1:
        waiting = "Nothing waits" if not found["total"] else f"{found['total']} things wait"
        raise InvalidInput(
            f"{waiting} for your approval: say which one.", suggestion="See `deepwork approvals list`."
        )
    id: str = found["approvals"][0]["id"]
    if not sys.stdin or not sys.stdin.isatty():
        raise NotAllowed(
            "Nothing was decided: standard input is not a terminal, so nobody can be asked.",
            suggestion=f"Look at it with `deepwork approvals show {id}`, then name it.",
        )
    print_lines(_render(call_operation(app, "get_approval", {"id": id})))
    click.confirm("Decide about this?", abort=True, err=True)
    return id


def _render(found: Mapping[str, Any]) -> Iterator[str]:
    shown, differences = found.get("shown"), found.get("differences")
    for key, value in found.items():
        if key not in ("shown", "differences"):
            yield f"{key}: {value}"
    if differences is not None:
        yield ""
        yield f"What differs from what was approved in {found['approved_before']}:"
        for each in differences:
            yield from _render_difference(each)
    if shown is not None:
        yield ""
        yield from _render_guarded(shown) if found["kind"] == "guarded" else _render_json(shown)


def _render_guarded(shown: Mapping[str, Any]) -> Iterator[str]:
    """Render changes to guarded files: the diffs below the rest, indented, so that they fake nothing."""
    files = [{key: value for key, value in each.items() if key != "diff"} for each in shown["paths"]]
    yield from _render_json({**shown, "paths": files})
    for each in shown["paths"]:
        if "diff" in each:
            yield ""
            yield f"{each['path']}:"
            yield from (f"    {line}" for line in each["diff"].split("\n"))


def _render_json(value: Any) -> list[str]:
    return split_lines(json.dumps(value, indent=2, ensure_ascii=False))


def _render_difference(each: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {each['path']}"
    for sign, side in (("-", "before"), ("+", "after")):
        if side in each:
            yield f"    {sign} {json.dumps(each[side], ensure_ascii=False)}"
    yield from (f"    {line}" for line in each.get("diff", ()))
