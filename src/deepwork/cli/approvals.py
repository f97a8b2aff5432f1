"""`deepwork approvals`: what waits for a person's approval, and how a person proves to be one."""

from __future__ import annotations

import click

from deepwork.cli.framework.command_groups import CommandGroup
from deepwork.cli.person_proof import enroll, lower, proof


@click.group(cls=CommandGroup)
def approvals() -> None:
    """What waits for your approval, and how you prove to be a person."""


approvals.add_command(enroll)
approvals.add_command(lower)
approvals.add_command(proof)
