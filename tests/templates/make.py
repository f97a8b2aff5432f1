"""Templates for tests: say what matters, the rest is ordinary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.work.plans.models import Outline
from deepwork.work.templates.models import Template, Variable, collect_variables


def build_template(*tasks: Outline, variables: tuple[Variable, ...] = (), **given: Any) -> Template:
    """A template as a value."""
    ordinary: dict[str, Any] = {"id": "tmpl_1", "name": "release", "description": None}
    return Template(**(ordinary | given), tasks=tasks, variables=collect_variables(tasks, variables))


def create_template(app: Application, *tasks: dict[str, Any], name: str = "release", **given: Any) -> str:
    """A stored template; its id."""
    variables = given.pop("variables", None)
    definition = {"tasks": list(tasks)} | ({} if variables is None else {"variables": variables})
    id: str = call_tool(app, "template_create", name=name, template=definition, **given)["id"]
    return id


def list_templates(app: Application) -> dict[str, Any]:
    """Every template, by its name."""
    return {each["name"]: each for each in call_tool(app, "template_list")["templates"]}


def write_template(folder: Path, name: str, text: str) -> Path:
    """A template file of the project or the user whose folder this is."""
    file = folder / ".deepwork" / "templates" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
