"""`deepwork tokens`: create, list and revoke access tokens for servers on the network."""

from __future__ import annotations

from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options
from deepwork.edge.cli.framework.output import print_answer
from deepwork.gates.access.models import Scope


@click.group(cls=CommandGroup)
def tokens() -> None:
    """Access tokens for servers on the network."""


@tokens.command()
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    help="read: read only. work: also change work. admin: everything. Default with --person: work.",
)
@click.option(
    "--person",
    "is_person",
    is_flag=True,
    help="For a person: its holder may approve, answer and decide. Give it to no agent.",
)
@click.option(
    "--expires", type=click.IntRange(1, 3650), metavar="DAYS", help="Days until it expires. Default: never."
)
@json_option
@place_options
def create(
    name: str, scope: str | None, is_person: bool, expires: int | None, as_json: bool, **place: Any
) -> None:
    """Create a token and print it once."""
    if scope is None and not is_person:
        raise click.UsageError("Missing option '--scope', or '--person' for a token of a person.")
    given: dict[str, Any] = {"name": name, "scope": scope or Scope.WORK.value}
    given |= {"expires_days": expires} if expires else {}
    given |= {"is_person": True} if is_person else {}
    made = _call_tool("token_create", given, place)
    if as_json:
        print_answer(made, as_json=True)
        return
    click.echo(made["token"])
    click.echo("Save it now: it is not shown again.", err=True)


@tokens.command("list")
@json_option
@place_options
def list_(as_json: bool, **place: Any) -> None:
    """List all tokens, including revoked and expired ones."""
    print_answer(_call_tool("token_list", {}, place, reads=True, quiet=as_json), as_json=as_json)


@tokens.command()
@click.argument("name")
@json_option
@place_options
def revoke(name: str, as_json: bool, **place: Any) -> None:
    """Revoke a token: every server refuses it within seconds."""
    print_answer(_call_tool("token_revoke", {"name": name}, place), as_json=as_json)


def _call_tool(tool: str, given: dict[str, Any], place: dict[str, Any], **how: bool) -> Any:
    with open_application(place.pop("path"), place, **how) as app:
        return call_operation(app, tool, given)
