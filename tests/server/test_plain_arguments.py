"""Arguments that are validated without pydantic get the same result as with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepwork.edge.server.application import OPERATION_CLASSES
from deepwork.edge.server.plain_arguments import PlainArguments
from deepwork.edge.server.registry import OperationSpec, describe_class
from deepwork.edge.server.tool_models import validate_with_model
from deepwork.kernel.errors import InvalidInput

SPECS = {f"{path}.{spec.name}": spec for path in OPERATION_CLASSES for spec in describe_class(path).specs}
WORDS = ["worker", "WORKER", "online", "blocked", "text", "warn", "tasks", " padded ", "", "x" * 201, "\x1c"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 20_000)
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def validate(spec: OperationSpec, arguments: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return validate_with_model(spec.name, spec.parameters, arguments)
    except InvalidInput:
        return None


@given(data=st.data())
def test_every_accepted_value_is_what_pydantic_returns(data: st.DataObject):
    spec = SPECS[data.draw(st.sampled_from(sorted(SPECS)))]
    assert spec.prepared is not None
    names = data.draw(st.lists(st.sampled_from([*spec.parameter_names, "unknown"]), unique=True))
    arguments = {name: data.draw(VALUES) for name in names}

    converted = PlainArguments(spec.prepared.shapes).convert(arguments)

    if converted is not None:
        expected = validate(spec, arguments)
        assert converted == expected
        assert expected is not None
        assert list(map(type, converted.values())) == [type(expected[name]) for name in converted]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("work.agents.tools:AgentTools.agent_register", {"name": "Ada", "runtime": "codex", "metadata": {"a": 1}}),
        ("work.agents.tools:AgentTools.agent_list", {"status": ["online"], "limit": 5}),
        ("work.plans.task_tools:TaskTools.task_claim", {"task_id": "tk_1", "agent_id": "ag_1"}),
        ("work.plans.task_tools:TaskTools.task_load_context", {"task_id": "tk_1", "max_tokens": 4000}),
        ("work.messages.tools:MessageTools.message_send", {"body": "hello", "sender_id": "a", "recipient_id": "b", "message_type": "query"}),
        ("work.messages.tools:MessageTools.message_send", {"body": {"a": []}, "sender_id": "a", "recipient_id": "b", "message_type": "query"}),
        ("work.tracking.log_tools:LogTools.log_milestone", {"task_id": "tt_1", "message": "half", "progress": 50}),
    ],
)  # fmt: skip
def test_usual_calls_need_no_pydantic(tool: str, arguments: dict[str, Any]):
    spec = SPECS[f"deepwork.{tool}"]
    assert spec.prepared is not None

    assert PlainArguments(spec.prepared.shapes).convert(arguments) == validate(spec, arguments)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"id": 5}, {"id": None}, {"id": ""}, {"id": " ag_1"}, {"id": "x" * 201}, {"id": "ag_1", "more": 1}],
)
def test_anything_unusual_is_left_to_pydantic(arguments: dict[str, Any]):
    spec = SPECS["deepwork.work.agents.tools:AgentTools.agent_get"]
    assert spec.prepared is not None

    assert PlainArguments(spec.prepared.shapes).convert(arguments) is None
