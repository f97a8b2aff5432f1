"""A plan in the person's editor: as YAML, and back once it is valid."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.do.questions import Person
from deepwork.edge.cli.framework.applications import call_operation, name_person
from deepwork.kernel.call import Call
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.files.private import make_private_folder, write_atomically

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

Row = dict[str, Any]
_HEAD = """\
# The plan, before it starts. Save and leave the editor: it is checked, and you are asked again.
# Nothing changes if the file is empty. The keys are those of `deepwork plans set-plan`.
"""
_KEYS = ("summary", "tasks")
_LONG = 100


def edit_plan(app: Application, wish: Row, plan: Row, person: Person) -> None:
    """Let a person edit the tasks of a plan; what cannot be used is said, and the text is kept."""
    text = _HEAD + _write(plan)
    while True:
        edited = _open_editor(text)
        if edited is None or edited == text or not edited.removeprefix(_HEAD).strip():
            person.say("Nothing was changed.")
            return
        try:
            _replan(app, wish["plan_id"], edited)
        except DeepworkError as error:
            person.say(error.message, error.suggestion)
            text = edited
            if not person.can_answer or not person.confirm("Edit it again?"):
                person.say(f"Nothing was changed; your text is in {_keep(app, wish['id'], edited)}.")
                return
        else:
            return


def _replan(app: Application, plan_id: str, text: str) -> None:
    from deepwork.kernel.files.yaml import load_yaml  # imported here: few people edit

    data = load_yaml(text, source="the plan").data
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), list):
        raise NotAllowed("The plan has no list of tasks.", suggestion="Keep the keys `summary` and `tasks`.")
    if unknown := [str(key) for key in data if key not in _KEYS]:
        raise NotAllowed(f"Only summary and tasks can be changed here, not {', '.join(unknown)}.")
    call = Call(name_person(), "workflow_replan", carries_notices=False)
    given = {
        "workflow_id": plan_id,
        "reason": "A person edited the plan before it started.",
        "tasks": data["tasks"],
        "summary": data.get("summary") or None,
    }
    call_operation(app, "workflow_replan", given, call)


def _write(plan: Mapping[str, Any]) -> str:
    """Write the plan as YAML, with texts of several lines as blocks."""
    import yaml

    class _Dumper(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
            super().increase_indent(flow, False)

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        is_long = "\n" in text or len(text) > _LONG
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_long else None)

    _Dumper.add_representer(str, represent)
    written = {key: plan[key] for key in _KEYS}
    return str(yaml.dump(written, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))


def _open_editor(text: str) -> str | None:
    """Return what a person made of a text; None if the editor failed."""
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="deepwork-plan-") as folder:
        path = Path(folder) / "plan.yml"
        path.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603 - the person's editor
        except OSError as error:
            raise NotAllowed(
                f"The editor {words[0]!r} cannot be started: {error.strerror}.", suggestion="Set $EDITOR."
            ) from None
        return path.read_text(encoding="utf-8", errors="replace") if code == 0 else None


def _keep(app: Application, id: str, text: str) -> Path:
    path = app.settings.state_folder / "tmp" / f"plan_{id}.yml"
    make_private_folder(path.parent)
    write_atomically(path, text.encode())
    return path
