"""`deepwork approvals enroll`, `lower` and `proof`: how a person proves that a decision is theirs."""

from __future__ import annotations

from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import json_option, passphrase_option, place_options
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.framework.proofs import build_person_call, read_passphrase
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.trust.models import CredentialKind


@click.command()
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
    from deepwork.gates.approvals.passphrase import hash_passphrase

    with open_application(place.pop("path"), place) as app:
        call = build_person_call(
            app.database, "enroll_passphrase", passphrase_stdin=passphrase_stdin, is_enrolling=True
        )
        new = read_passphrase("New passphrase", from_stdin=passphrase_stdin, confirms=True)
        answer = call_operation(app, call.tool, {"verifier": hash_passphrase(new)}, call)
    if as_json:
        print_answer(answer, as_json=True)
    else:
        print(f"Enrolled. Decisions need a {answer['required']} now, in every project of yours.")
        print("Choose it in your settings too, for new stores: approvals: {proof: passphrase}")


@click.command()
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
    if as_json:
        print_answer(answer, as_json=True)
    else:
        print(f"Decisions need a {answer['required']} now.")
        if answer["required"] != method:
            print(f"Your settings demand it; change approvals.proof to {method} there, too.")


@click.command()
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
