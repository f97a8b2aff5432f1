"""`deepwork approvals`: what waits for a person, their decisions, and how they prove to be one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework import terminal
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
from deepwork.edge.cli.framework.output import print_answer, print_listed, print_said, to_printable
from deepwork.edge.cli.framework.patches import page_lines, render_patch, render_stat
from deepwork.edge.cli.framework.proofs import build_person_call, read_passphrase
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.foreign_text import quote_line, split_lines
from deepwork.kernel.user_settings import CredentialKind

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application


_MAX_LISTED, _MAX_BYTES = 500, 1_000_000
comment_option = click.option(
    "--comment", type=TextParam(may_be_empty=False), metavar="TEXT|-", help="For the agent, which reads it."
)


@click.group(cls=CommandGroup)
def approvals() -> None:
    """What waits for your approval, what you decided, and how you prove to be a person."""


@approvals.command("list")
@click.option("--all", "whole", is_flag=True, help="Also those that were decided or are out of date.")
@click.option("--workflow", metavar="PLAN", help="Only of this plan, tracked workflow or job session.")
@place_options
@json_option
def list_approvals(whole: bool, workflow: str | None, as_json: bool, path: str, **place: Any) -> None:
    """List what waits for your approval, the last asked first."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        of_work = resolve_id(app.database, "work", workflow) if workflow else None
        given = {"all": whole, "workflow_id": of_work, "limit": _MAX_LISTED}
        found = call_operation(app, "list_approvals", given)
    keys = ("id", "kind", "title", "workflow_id", "asked_by", "asked_at")
    rows = [
        {"id": each["id"], "status": describe_status(each)}
        | {key: each.get(key) for key in keys}
        | {"asked_by": _name_asker(each)}
        for each in found["approvals"]
    ]
    print_listed(found, "approvals", rows, "Nothing waits for your approval.", as_json=as_json)


@approvals.command("show")
@click.argument("id", metavar="APPROVAL")
@click.option(
    "--whole", is_flag=True, help="Show all, even if only a part differs from what was decided before."
)
@place_options
@json_option
def show_approval(id: str, whole: bool, as_json: bool, path: str, **place: Any) -> None:
    """Show what is to be approved: what the work changed, its checks with their output, and what it cost.

    Of what was approved or refused before, only what differs since; --whole shows all.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = _load(app, resolve_id(app.database, "approval", id), whole=whole)
    if as_json:
        print_answer(found, as_json=True)
    else:
        page_lines(_render(found))


@approvals.command()
@click.argument("id", metavar="[APPROVAL]", required=False)
@comment_option
@click.option("--anyway", is_flag=True, help="Although no agent has heard what was told about the task.")
@passphrase_option
@key_option
@place_options
@json_option
def approve(id: str | None, anyway: bool, **given: Any) -> None:
    """Approve exactly what an approval shows; without APPROVAL, the only one that waits.

    Exit code 1 if it could not be carried out, such as when the work was changed after it was shown.
    """
    _decide("give_approval", id, asks=not anyway, **given)


@approvals.command()
@click.argument("id", metavar="[APPROVAL]", required=False)
@comment_option
@passphrase_option
@key_option
@place_options
@json_option
def refuse(id: str | None, **given: Any) -> None:
    """Refuse what an approval shows, and say why; without APPROVAL, the only one that waits."""
    if not given["comment"]:
        named = f" {id}" if id else ""
        raise InvalidInput(
            "Nothing was decided: say why, because the agent has nothing else to go by.",
            suggestion=f"`deepwork approvals refuse{named} --comment TEXT`",
        )
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
            suggestion="Open the settings of the dashboard under the name localhost: "
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
    asks: bool = False,
    **place: Any,
) -> None:
    """Decide; `asks`: not without another question if words of people would be lost."""
    from deepwork.kernel.database.idempotency import check_key

    with open_application(path, place, reads=True, quiet=as_json) as app:
        chosen = resolve_id(app.database, "approval", id) if id else _choose_only(app)
        if asks:
            _ask_about_unheard(app, chosen)
        key = None if idempotency_key is None else check_key(idempotency_key)
        arguments = {"approval_id": chosen} | ({"comment": comment} if comment else {})
        call = build_person_call(app.database, action, key, passphrase_stdin=passphrase_stdin)
        answer = call_operation(app, action, arguments, call)
    done = "Approved" if answer["status"] == "given" else "Refused"
    print_said(answer, f"{done} {chosen}. {answer.get('effect') or ''}".rstrip(), as_json=as_json)
    if answer.get("carried_out") is False:
        sys.exit(1)


def _ask_about_unheard(app: Application, id: str) -> None:
    """Ask whether to approve work although people told its agent something that it has not heard."""
    approval = call_operation(app, "get_approval", {"id": id})
    if approval["kind"] != "task" or approval["status"] not in ("pending", "refused"):
        return
    words = call_operation(app, "list_words", {"to": approval["subject_id"]})["words"]
    unheard = [each for each in words if each.get("reaches")]
    if not unheard:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise NotAllowed(
            "Nothing was decided: no agent has heard what was told about this: "
            f"{quote_line(unheard[-1]['text'], 300)}",
            suggestion=f"`deepwork approvals refuse {id}` lets the next agent hear it; "
            f"`deepwork approvals approve {id} --anyway` approves without.",
        )
    for line in _render_unheard(unheard):
        click.echo(line, err=True)
    click.confirm("Approve anyway?", abort=True, err=True)


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
    page_lines(_render(_load(app, id)))
    click.confirm("Decide about this?", abort=True, err=True)
    return id


def _load(app: Application, id: str, *, whole: bool = False) -> dict[str, Any]:
    """Load an approval with what a person looks at before they decide."""
    found: dict[str, Any] = call_operation(app, "get_approval", {"id": id, "whole": whole})
    evidence = call_operation(
        app, "get_approval_evidence", {"id": id, "whole": whole, "max_bytes": _MAX_BYTES}
    )
    return found | {"evidence": evidence}


def _render(found: Mapping[str, Any]) -> Iterator[str]:
    evidence: Mapping[str, Any] = found["evidence"]
    title = to_printable(found.get("title") or found["subject_id"])
    yield terminal.paint(f"{found['kind'].replace('_', ' ')}: {title}", "bold")
    yield f"{found['id']}, {describe_status(found)}"
    yield to_printable(f"asked by {_name_asker(found)} at {found['asked_at']}")
    if found.get("comment"):
        yield to_printable(f"comment: {found['comment']}")
    if "patch" in evidence:
        yield from _render_work(evidence)
    else:
        yield from map(to_printable, _render_shown(found))
    for check in evidence["checks"]:
        yield from _render_check(check)
    if evidence.get("spent"):
        spent = evidence["spent"]
        usd, tokens = format_dollars(spent["usd"]), f"{spent['tokens']:,} tokens"
        yield ""
        yield f"It cost {usd}, {tokens}, {spent['minutes']:g} minutes."
    if unheard := evidence.get("unheard"):
        yield ""
        yield from _render_unheard(unheard)
    if evidence.get("approve"):
        yield ""
        yield terminal.paint(evidence["approve"], "cyan")
        yield terminal.paint(evidence["refuse"], "cyan")


def _name_asker(found: Mapping[str, Any]) -> str:
    """Name who asked: an agent by its name, which says what it worked on, a person by theirs."""
    asker: str = found.get("asked_by_name") or found["asked_by"]
    return asker.removeprefix(PERSON_PREFIX)


def _render_unheard(words: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say what nobody heard, because the work was done already."""
    for each in words:
        said = f"{to_printable(each['by'].removeprefix(PERSON_PREFIX))} says: {quote_line(each['text'], 300)}"
        yield terminal.paint(said, "yellow")
    yield "No agent has heard this. If you refuse, the next one does; if you approve, nobody does."


def describe_status(found: Mapping[str, Any]) -> str:
    """Say who decided what about an approval, and whether it was used."""
    if not found.get("decided_by"):
        return "waits for you" if found["status"] == "pending" else found["status"]
    by = to_printable(found["decided_by"].removeprefix(PERSON_PREFIX))
    done = "refused" if found["status"] == "refused" else "approved"
    more = {"used": f", used at {found.get('used_at')}", "stale": ", out of date", "expired": ", expired"}
    return f"{done} by {by}{more.get(found['status'], '')}"


def _render_work(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Render the work: its outcome, how much of each file changed, then the lines."""
    if evidence.get("outcome"):
        yield ""
        yield from (f"  {to_printable(line)}" for line in split_lines(evidence["outcome"]))
    yield ""
    if evidence.get("compared_with"):
        yield f"What differs from what was refused in {evidence['compared_with']}; --whole shows all:"
    yield from render_stat(evidence)
    if evidence["patch"]:
        yield ""
        yield from render_patch(evidence, "`deepwork diff TASK FILE` shows the rest")


def _render_check(check: Mapping[str, Any]) -> Iterator[str]:
    tests = f", {check['tests_run']} tests" if check.get("tests_run") is not None else ""
    yield ""
    yield terminal.paint(to_printable(f"check {check['check']}: {check['verdict']}{tests}"), "bold")
    yield from (f"  {to_printable(line)}" for line in split_lines(check.get("output") or ""))


def _render_shown(found: Mapping[str, Any]) -> Iterator[str]:
    """Render what is to be approved if that is no work, such as a plan or changes of guarded files."""
    shown, differences = found.get("shown"), found.get("differences")
    if differences is not None:
        yield ""
        yield f"What differs from what was approved in {found['approved_before']}:"
        for each in differences:
            yield from _render_difference(each)
    if shown is not None:
        yield ""
        yield from _render_guarded(shown) if found["kind"] == "guarded" else _render_facts(shown)


def _render_facts(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Render what is shown as lines of text; of lists, one entry after the other."""
    for key, each in value.items():
        if each in (None, "", [], {}):
            continue
        name = f"{indent}{key.replace('_', ' ')}:"
        if isinstance(each, Mapping):
            yield name
            yield from _render_facts(each, f"{indent}  ")
        elif isinstance(each, list) and any(isinstance(one, Mapping) for one in each):
            yield name
            for one in each:
                lines = list(_render_facts(one, f"{indent}    ")) if isinstance(one, Mapping) else [str(one)]
                yield from (f"{indent}  - {line.strip()}" for line in lines[:1])
                yield from lines[1:]
        elif isinstance(each, str) and "\n" in each:
            yield name
            yield from (f"{indent}  {line}" for line in split_lines(each))
        else:
            yield f"{name} {each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)}"


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
