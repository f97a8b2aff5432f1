from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from access.make import call_token_tool, list_entries, make_token
from application import NOW, Clock
from deepwork.edge.server.application import Application
from deepwork.gates.access.models import hash_secret, matches_secret
from deepwork.gates.access.store import TokenStore
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed

DAY_MS = 24 * 3600 * 1000


def list_tokens(app: Application) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call_token_tool(app, "token_list")["tokens"]
    return found


def test_a_token_is_shown_once_and_stored_as_a_digest(app: Application):
    text, id, secret = make_token(app, "ci", "work", expires_days=7)

    with app.database.reading() as tx:
        kept = TokenStore(tx).find(id)
        row = tx.fetch_one("SELECT * FROM tokens WHERE id = :id", id=id)
    assert kept is not None
    assert matches_secret(secret, kept)
    assert kept.digest != hash_secret(secret), "a digest with the key of the store"
    assert secret not in str(row)
    assert secret not in str(list_tokens(app))
    assert text not in str(list_entries(app))


def test_the_list_shows_creator_and_scope(app: Application):
    _, id, _ = make_token(app, "ci", "work", expires_days=7)

    assert list_tokens(app) == [
        {
            "name": "ci", "id": id, "scope": "work", "status": "valid", "created_by": "local",
            "created_at": NOW, "expires_at": NOW + 7 * DAY_MS, "is_person": False,
        }
    ]  # fmt: skip


def test_only_a_token_made_for_a_person_is_one(app: Application):
    make_token(app, "agent")
    make_token(app, "boss", "admin")
    make_token(app, "anna", is_person=True)

    persons = {each["name"]: each["is_person"] for each in list_tokens(app)}
    assert persons == {"agent": False, "boss": False, "anna": True}
    with pytest.raises(InvalidInput, match="cannot have the scope read"):
        make_token(app, "eve", "read", is_person=True)


def test_no_two_tokens_are_equal(app: Application):
    texts = [make_token(app, f"t{number}")[0] for number in range(20)]

    assert len(set(texts)) == 20


def test_a_name_is_taken_while_its_token_is_valid(app: Application):
    make_token(app, "ci")

    with pytest.raises(NotAllowed, match="'ci' already exists"):
        make_token(app, "ci", "read")


def test_a_name_is_free_again_once_its_token_is_revoked(app: Application):
    first = make_token(app, "ci")
    call_token_tool(app, "token_revoke", name="ci")
    second = make_token(app, "ci")

    assert first != second
    assert sorted(each["status"] for each in list_tokens(app)) == ["revoked", "valid"]


def test_a_name_is_free_again_once_its_token_has_expired(app: Application, clock: Clock):
    make_token(app, "ci", expires_days=1)
    clock.advance(seconds=24 * 3600 - 1)
    with pytest.raises(NotAllowed):
        make_token(app, "ci")
    clock.advance(seconds=1)

    make_token(app, "ci")

    assert [each["status"] for each in list_tokens(app)] == ["expired", "valid"]


@pytest.mark.differs
def test_only_one_of_many_concurrent_creations_of_a_name_succeeds(app: Application):
    def make(_: int) -> bool:
        try:
            make_token(app, "ci")
        except NotAllowed:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(make, range(6))) == 1


def test_a_missing_token_cannot_be_revoked(app: Application):
    make_token(app, "ci")
    call_token_tool(app, "token_revoke", name="ci")

    for name in ("ci", "nobody"):
        with pytest.raises(NotAllowed, match="no token"):
            call_token_tool(app, "token_revoke", name=name)


def test_a_token_passed_as_a_name_is_not_echoed(app: Application):
    text, _, secret = make_token(app, "ci")

    for tool, more in (("token_revoke", {}), ("token_create", {"scope": "read"})):
        with pytest.raises(InvalidInput) as refused:
            call_token_tool(app, tool, name=text, **more)
        assert secret not in str(refused.value.to_dict())
    assert secret not in str(list_entries(app))


@pytest.mark.parametrize(
    "given",
    [{"scope": "root"}, {"scope": "read", "expires_days": 0}, {"scope": "read", "expires_days": 4000}],
)
def test_an_invalid_scope_or_expiry_is_refused(app: Application, given: dict[str, Any]):
    with pytest.raises(DeepworkError) as refused:
        call_token_tool(app, "token_create", name="ci", **given)

    assert refused.value.code == "INVALID_INPUT"
    assert list_tokens(app) == []
