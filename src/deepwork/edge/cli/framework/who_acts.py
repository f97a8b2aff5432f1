"""Who a command acts for: the person at this terminal, or a program that agents are not notified of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.operations import Preset

_REPORTING_TOOLS = ("log_milestone", "message_send")
"""For people too, but mostly what an agent writes about its own work, and in its own name."""
_PLANNING_TOOLS = ("workflow_replan", "workflow_remove_task", "workflow_set_parallelism")
"""What people do to plans at a shell; the dashboard does not offer it."""
_NOTIFYING_TOOLS = (
    "workflow_update_status",
    "task_release",
    "abort_workflow",
    "abandon_task",
    *_PLANNING_TOOLS,
)
"""What agents get a notice of if a person does it, and what names no agent that did it."""


def is_persons_command(spec: OperationSpec, preset: Preset | None) -> bool:
    """Whether it is a person's command by nature, and so acts as the person if typed at a terminal."""
    if preset is not None and preset.reports_work:
        return False
    return is_for_people(spec) and spec.name not in _REPORTING_TOOLS


def is_for_people(spec: OperationSpec) -> bool:
    """Whether people use the command too, so that they can choose to act as themselves."""
    return spec.declaration.for_people or spec.name in _PLANNING_TOOLS


def is_typed() -> bool:
    """Whether standard input is a terminal, so that a person, not a program, runs the command."""
    return sys.stdin is not None and sys.stdin.isatty()


def print_unnotified(tool: str) -> None:
    """Say that agents were not notified, if they would have been of a person."""
    if tool in _NOTIFYING_TOOLS:
        print("Agents were not notified of this; --as-person does that.", file=sys.stderr)


def name_person() -> str:
    """Return the caller `human:<user>` of the person at this shell; `local` if the system has no name."""
    import getpass

    from deepwork.kernel.call import PERSON_PREFIX

    try:
        return f"{PERSON_PREFIX}{getpass.getuser()}"
    except (KeyError, OSError):  # such as in a container whose user has no entry
        return f"{PERSON_PREFIX}local"
