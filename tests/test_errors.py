from __future__ import annotations

import pytest

from deepwork.kernel import errors
from deepwork.kernel.errors import Code, DeepworkError, NotFound


def list_subclasses(kind: type[DeepworkError]) -> list[type[DeepworkError]]:
    return [kind, *(below for each in kind.__subclasses__() for below in list_subclasses(each))]


def test_the_tree_in_the_docstring_matches_the_classes():
    for kind in list_subclasses(DeepworkError):
        assert kind.__name__ in str(errors.__doc__)


def test_an_error_has_the_four_keys_that_clients_read():
    assert NotFound("agent", "ag_1").to_dict() == {
        "code": "AGENT_NOT_FOUND",
        "message": "There is no agent 'ag_1'.",
        "recoverable": False,
        "suggestion": "List what exists, then call again with an id from that list.",
    }


def test_every_kind_of_missing_object_has_its_own_code():
    for kind in (
        "agent",
        "sender",
        "recipient",
        "message",
        "task",
        "workflow",
        "session",
        "job",
        "run",
        "attempt",
    ):
        assert NotFound(kind, "x").code == f"{kind.upper()}_NOT_FOUND"


def test_every_error_code_equals_its_name():
    assert all(code.name == code.value for code in Code)


@pytest.mark.parametrize("kind", list_subclasses(DeepworkError))
def test_every_error_class_has_a_docstring(kind: type[DeepworkError]):
    assert kind.__doc__
