"""Writes the JSON Schemas for editors from the models of the file formats; a test checks that they are up to date."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from deepwork.gates.checks.check_file import CheckFileDefinition
from deepwork.gates.reviews.rule_file import RuleFile
from deepwork.kernel.files.definition_models import build_schema
from deepwork.work.jobs.definitions.job_file import JobDefinition
from deepwork.work.templates.template_file import TemplateDefinition

PACKAGE = Path(__file__).parent.parent / "src" / "deepwork"
MODELS: dict[Path, type[BaseModel]] = {
    PACKAGE / "work" / "jobs" / "job.schema.json": JobDefinition,
    PACKAGE / "gates" / "reviews" / "deepreview.schema.json": RuleFile,
    PACKAGE / "work" / "templates" / "template.schema.json": TemplateDefinition,
    PACKAGE / "gates" / "checks" / "checks.schema.json": CheckFileDefinition,
}


def render_schema(model: type[BaseModel]) -> str:
    return json.dumps(build_schema(model), indent=2) + "\n"


if __name__ == "__main__":
    for path, model in MODELS.items():
        path.write_text(render_schema(model), encoding="utf-8")
