from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any, ClassVar

import pytest

from application import make_app
from deepwork.edge.server.registry import OperationSpec, list_specs
from deepwork.gates.access import models
from deepwork.gates.access.models import Scope, Token
from deepwork.gates.access.operations import TokenOperations
from deepwork.kernel.operations import Traits

SECRET = "s" * 43
ID = "3k9x0q2m7b1z"


@pytest.fixture
def registry(tmp_path: Path) -> dict[str, OperationSpec]:
    return make_app(tmp_path, str(tmp_path / "deepwork.db")).registry


def test_a_public_method_without_a_declaration_is_refused():
    class Undeclared:
        traits: ClassVar = Traits(toolset="agents")

        def brand_new(self) -> None:
            """A tool whose author forgot to declare its scope."""

    with pytest.raises(TypeError, match=r"brand_new is public in a class of operations: add @operation"):
        list_specs(Undeclared())


def test_a_tool_is_read_only_if_and_only_if_it_needs_no_more_than_read(registry: dict[str, OperationSpec]):
    assert {spec.declaration.scope for spec in registry.values() if spec.read_only} == {"read"}
    assert "read" not in {spec.declaration.scope for spec in registry.values() if not spec.read_only}


def test_even_listing_tokens_needs_the_scope_admin():
    for spec in list_specs(TokenOperations):
        assert models.get_required_scope(spec.declaration, {}) is Scope.ADMIN


@pytest.mark.parametrize(
    ("tool", "arguments", "scope"),
    [
        ("agent_list", {}, "read"),
        ("message_get", {"id": "msg_1"}, "work"),
        ("message_get", {"id": "msg_1", "mark_read": True}, "work"),
        ("message_get", {"id": "msg_1", "mark_read": False}, "read"),
        ("workflow_update_status", {"id": "wf_1", "status": "failed"}, "work"),
        ("workflow_update_status", {"id": "wf_1", "status": "failed", "force": True}, "admin"),
        ("workflow_update_status", {"id": "wf_1", "status": "failed", "force": False}, "work"),
        ("message_broadcast", {}, "work"),
    ],
)  # fmt: skip
def test_a_call_requires_the_declared_scope(
    registry: dict[str, OperationSpec], tool: str, arguments: dict[str, Any], scope: str
):
    assert models.get_required_scope(registry[tool].declaration, arguments) == scope


@pytest.mark.parametrize("force", ["true", "yes", 1, 1.0, "on", "1", "TRUE", 0, None])
def test_no_spelling_of_true_bypasses_the_rule(registry: dict[str, OperationSpec], force: Any):
    """A value that a tool would accept as true needs the scope of true."""
    given = {"id": "wf_1", "status": "failed", "force": force}

    assert models.get_required_scope(registry["workflow_update_status"].declaration, given) is Scope.ADMIN


@pytest.mark.parametrize("mark_read", [None, "no", 0, "false", [], True])
def test_no_other_spelling_of_false_lowers_the_scope(registry: dict[str, OperationSpec], mark_read: Any):
    """Only a value that is certainly false lowers the scope."""
    given = {"id": "msg_1", "mark_read": mark_read}

    assert models.get_required_scope(registry["message_get"].declaration, given) is Scope.WORK


def test_a_scope_includes_those_before_it():
    covered = [[one.covers(other) for other in Scope] for one in Scope]

    assert covered == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_tool_is_offered_if_any_call_of_it_is_covered(registry: dict[str, OperationSpec]):
    assert models.is_offered_to(Scope.READ, registry["agent_list"].declaration)
    assert models.is_offered_to(Scope.READ, registry["message_get"].declaration)
    assert not models.is_offered_to(Scope.READ, registry["message_send"].declaration)
    assert models.is_offered_to(Scope.WORK, registry["workflow_update_status"].declaration)
    assert not models.is_offered_to(Scope.WORK, registry["repository_register"].declaration)


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("agent_heartbeat", {"agent_id": "ag_1"}, "ag_1"),
        ("agent_update", {"id": "ag_1"}, "ag_1"),
        ("agent_unregister", {"id": "ag_1"}, "ag_1"),
        ("message_send", {"sender_id": "ag_1", "recipient_id": "ag_2"}, "ag_1"),
        ("task_claim", {"task_id": "tk_1", "agent_id": "ag_1"}, "ag_1"),
        ("task_update_status", {"id": "tk_1"}, None),
        ("agent_heartbeat", {"agent_id": ["ag_1"]}, None),
        ("message_list", {"agent_id": "ag_1"}, None),
    ],
)
def test_the_acting_agent_is_read_from_the_declared_argument(
    registry: dict[str, OperationSpec], tool: str, arguments: dict[str, Any], named: str | None
):
    assert models.find_acting_agent(registry[tool].declaration, arguments) == named


def test_every_changing_tool_that_takes_an_agent_acts_for_it(registry: dict[str, OperationSpec]):
    """A tool that forgot `acts_as` would let one token act for an agent of another."""
    for name, spec in registry.items():
        agents = {
            word
            for word in spec.parameters.model_fields
            if word.endswith("_id") and any(who in word for who in ("agent", "sender", "holder"))
        }
        if agents and not spec.read_only:
            assert {spec.declaration.acts_as} == agents, name


@pytest.mark.parametrize("name", ["ci", "Ada-laptop", "build.7", "x" * 63, "0"])
def test_valid_token_names_are_accepted(name: str):
    assert models.is_token_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "owner", "local", "anonymous", "session:1", "client:x", "x" * 64, "-x", "a b", "a%b", "a\0b", "a\nb",
        "ünï", "../x", f"dw_{ID}_{SECRET}", "a\n",
    ],
)  # fmt: skip
def test_invalid_token_names_are_refused(name: str):
    assert not models.is_token_name(name)


def test_a_formatted_token_is_parsed_back():
    assert models.parse_token(models.format_token(ID, SECRET)) == (ID, SECRET)


@pytest.mark.parametrize(
    "text",
    [
        "", "dw_", f"dw_{ID}_", f"dw_{ID}_{SECRET}x", f"dw_{ID}_{SECRET[1:]}", f"dw_{ID[1:]}%_{SECRET}",
        f"dw_{ID[1:]}\0_{SECRET}", f"dw_{ID.upper()}_{SECRET}", f"xx_{ID}_{SECRET}", f"dw_{ID}_{SECRET}\n",
        f" dw_{ID}_{SECRET}", f"dw_' OR 1=1 --_{SECRET}", f"dw_{ID}_{SECRET[1:]}é",
    ],
)  # fmt: skip
def test_text_that_is_not_a_token_is_not_parsed(text: str):
    assert models.parse_token(text) is None


def test_a_secret_is_compared_in_constant_time_and_by_its_digest(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def seen(given: str, kept: str) -> bool:
        compared.append((given, kept))
        return real(given, kept)

    monkeypatch.setattr(hmac, "compare_digest", seen)

    token = Token("k1", "ci", models.hash_secret(SECRET), Scope.READ, "local", 0, None, None, None)
    assert models.matches_secret(SECRET, token)
    assert not models.matches_secret("x" * 43, token)
    assert not models.matches_secret(SECRET, None)
    assert [len(given) == len(kept) == 64 for given, kept in compared] == [True] * 3
    assert SECRET not in str(compared)


def test_a_token_is_valid_until_it_is_revoked_or_expires():
    def token(expires_at: int | None = None, revoked_at: int | None = None) -> Token:
        return Token(ID, "ci", "d", Scope.WORK, "local", 0, expires_at, revoked_at, None)

    assert token().is_valid(5)
    assert token(expires_at=6).is_valid(5)
    assert not token(expires_at=5).is_valid(5)
    assert not token(revoked_at=1).is_valid(5)


def test_a_token_does_not_show_the_digest_of_its_secret():
    assert "digest" not in repr(Token(ID, "ci", "the digest", Scope.WORK, "local", 0, None, None, None))
