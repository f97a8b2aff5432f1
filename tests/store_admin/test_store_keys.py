"""The key goes along with a copy, a backup and a restore: tokens stay valid, and the audit log can be verified."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from access.make import make_token, verify_audit
from access.other_users import use_home
from application import call_tool, make_app
from deepwork.delivery.store_adoption import take_over_copy
from deepwork.edge.server.application import Application
from deepwork.gates.access.models import matches_secret
from deepwork.gates.access.store import TokenStore
from deepwork.gates.access.token_cache import TokenCache
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.errors import Code, StoreNotAdopted
from deepwork.kernel.store_admin.backup import back_up, restore
from deepwork.kernel.store_admin.copying import copy_store
from store_admin.conftest import Place
from store_admin.stores import is_empty, read_all_rows

KINDS = ("sqlite", "postgres")
kinds = pytest.mark.parametrize("kind", KINDS)


def fill(folder: Path, location: str) -> tuple[str, str]:
    """Create a store with a token; return the id and the secret."""
    app = make_app(folder, location)
    call_tool(app, "agent_register", name="Ada", runtime="custom")
    _, id, secret = make_token(app, "ci")
    app.close()
    return id, secret


def is_valid(app: Application, token: tuple[str, str]) -> bool:
    found = TokenCache(app.database).find_valid(token[0])
    return found is not None and matches_secret(token[1], found)


def require_works(folder: Path, location: str, token: tuple[str, str]) -> None:
    """Check the token and the audit log, before and after another call."""
    app = make_app(folder, location)
    try:
        assert is_valid(app, token)
        call_tool(app, "agent_register", name="Bob", runtime="custom")
        verdict = verify_audit(app)
        assert (verdict.problem, verdict.rows, verdict.unkeyed_rows) == (None, 3, None)
    finally:
        app.close()


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_a_copy_keeps_its_tokens_and_its_audit_log(place: Place, tmp_path: Path, source: str, target: str):
    old, new = place(source), place(target)
    token = fill(tmp_path, old)

    copy_store(open_engine(old), open_engine(new))

    require_works(tmp_path, new, token)


@kinds
def test_a_backup_of_our_own_works_at_once(place: Place, tmp_path: Path, kind: str):
    location, target = place(kind), place(kind)
    token = fill(tmp_path, location)
    back_up(open_engine(location), tmp_path / "store.backup")

    restore(tmp_path / "store.backup", open_engine(target))

    require_works(tmp_path, target, token)


@kinds
def test_a_backup_of_another_user_is_refused_unless_it_is_adopted(place: Place, tmp_path: Path, kind: str):
    location, target, file = place(kind), place(kind), tmp_path / "store.backup"
    with use_home(tmp_path / "other"):
        token = fill(tmp_path, location)
        back_up(open_engine(location), file)
    before = file.read_bytes()

    with pytest.raises(Exception, match="not this user's") as refused:
        restore(file, open_engine(target))
    assert refused.value.code is Code.STORE_NOT_ADOPTED  # type: ignore[attr-defined]
    assert "--adopt" in refused.value.suggestion  # type: ignore[attr-defined]
    assert is_empty(target)

    restore(file, open_engine(target), adopt=take_over_copy)
    app = make_app(tmp_path, target)
    try:
        assert not is_valid(app, token)
        assert call_tool(app, "agent_list")["total"] == 1
        call_tool(app, "agent_register", name="Bob", runtime="custom")
        assert verify_audit(app).problem is None
        assert verify_audit(app).unkeyed_rows == 2
    finally:
        app.close()
    assert file.read_bytes() == before


@kinds
def test_a_server_notices_that_a_backup_with_another_key_was_restored(
    place: Place, tmp_path: Path, kind: str
):
    location, target = place(kind), place(kind)
    token = fill(tmp_path, location)
    back_up(open_engine(location), tmp_path / "store.backup")
    running = make_app(tmp_path, target)
    try:
        assert call_tool(running, "agent_list")["total"] == 0

        restore(tmp_path / "store.backup", open_engine(target))

        call_tool(running, "agent_register", name="Bob", runtime="custom")
        assert is_valid(running, token)
        assert verify_audit(running).problem is None
    finally:
        running.close()


def test_a_store_of_another_user_is_not_copied(place: Place, tmp_path: Path):
    location, target = place("sqlite"), place("sqlite")
    with use_home(tmp_path / "other"):
        fill(tmp_path, location)

    with pytest.raises(StoreNotAdopted):
        copy_store(open_engine(location), open_engine(target))

    assert not Path(target).exists() or is_empty(target)


def test_the_key_is_sealed_in_a_file_and_exposed_in_no_other_table(place: Place, tmp_path: Path):
    location = place("sqlite")
    fill(tmp_path, location)
    app = make_app(tmp_path, location)
    with app.database.reading() as tx:
        key = tx.read_store_key().key.hex()
        [row] = tx.fetch_all("SELECT * FROM store_identity")
    app.close()

    assert key not in str(row)
    assert key not in str(read_all_rows(location))


def test_another_role_of_the_database_cannot_read_the_key(place: Place, tmp_path: Path):
    location = place("postgres")
    fill(tmp_path, location)
    with psycopg.connect(location) as connection:
        connection.execute("CREATE ROLE guest_of_keys")
        connection.execute("SET ROLE guest_of_keys")

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM store_identity")

        connection.rollback()


@kinds
def test_a_digest_of_one_store_means_nothing_in_another(place: Place, tmp_path: Path, kind: str):
    one, other = place(kind), place(kind)
    id, secret = fill(tmp_path, one)
    fill(tmp_path, other)
    app, there = make_app(tmp_path, one), make_app(tmp_path, other)
    try:
        with app.database.reading() as tx:
            digest = tx.fetch_value("SELECT digest FROM tokens")
        with there.database.transaction() as tx:
            tx.execute("UPDATE tokens SET id = :id, digest = :digest", id=id, digest=digest)
        with there.database.reading() as tx:
            planted = TokenStore(tx).find(id)
        assert not matches_secret(secret, planted)
    finally:
        app.close()
        there.close()
