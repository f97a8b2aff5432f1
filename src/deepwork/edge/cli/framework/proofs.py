"""Asks the person at this shell for the proof that a decision needs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from deepwork.edge.cli.framework.applications import name_person
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.user_settings import CredentialKind

if TYPE_CHECKING:
    from deepwork.kernel.database.transaction import Database


def build_person_call(
    database: Database,
    tool: str,
    key: str | None = None,
    *,
    passphrase_stdin: bool,
    is_enrolling: bool = False,
) -> Call:
    """Build the call of the person at this shell, and ask for the passphrase if it needs one.

    `is_enrolling`: it changes proofs, for which what is enrolled counts, not what the settings demand.
    """
    from deepwork.gates.approvals.person_proof import PersonProofs
    from deepwork.kernel.user_settings import UserSettings, load_user_settings

    state = PersonProofs(database, UserSettings if is_enrolling else load_user_settings).read_state()
    needs_passphrase = state.required is CredentialKind.PASSPHRASE and state.select(CredentialKind.PASSPHRASE)
    passphrase = read_passphrase("Passphrase", from_stdin=passphrase_stdin) if needs_passphrase else ""
    return Call(name_person(), tool, key, proof=GivenProof(passphrase))


def build_act_call(tool: str, key: str | None = None, *, passphrase_stdin: bool) -> Call:
    """Build the call of the person at this shell, asked for the passphrase only where a gate needs it."""
    ask = partial(read_passphrase, "Passphrase", from_stdin=passphrase_stdin)
    return Call(name_person(), tool, key, carries_notices=False, read_passphrase=ask)


def read_passphrase(prompt: str, *, from_stdin: bool, confirms: bool = False) -> str:
    """Read a passphrase from the terminal, without showing it, or from standard input."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\n") if sys.stdin else ""
    if not sys.stdin or not sys.stdin.isatty():
        raise NotAllowed(
            "This needs your passphrase, and standard input is not a terminal.",
            code=Code.UNAUTHORIZED,
            suggestion="Run it in a terminal, or pass the passphrase with --passphrase-stdin.",
        )
    text: str = click.prompt(prompt, hide_input=True, confirmation_prompt=confirms, err=True)
    return text
