"""A task of a template is written, stored and shown with the same fields, whichever way it comes."""

from __future__ import annotations

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.work.plans.inputs import PlannedTask
from deepwork.work.templates.responses import TaskForm
from deepwork.work.templates.template_file import TaskDefinition

FIELDS = set(PlannedTask.model_fields)


def test_every_form_of_a_task_has_the_same_fields():
    assert set(TaskDefinition.model_fields) == FIELDS
    assert set(TaskForm.__annotations__) == FIELDS


def test_a_listed_template_shows_how_often_a_task_may_fail(app: Application):
    task = {"name": "a", "description": "d", "sequence": 1, "max_attempts": 7}
    id = call_tool(app, "template_create", name="t", template={"tasks": [task]})["id"]

    listed = call_tool(app, "template_list")["templates"]

    assert [each["template"]["tasks"] for each in listed if each["id"] == id] == [[task]]
