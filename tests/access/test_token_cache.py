from __future__ import annotations

from pathlib import Path

import pytest

from access.make import call_token_tool, make_token, run_sql
from application import NOW, Clock, make_app
from deepwork.edge.server.application import Application
from deepwork.gates.access.store import TokenStore
from deepwork.gates.access.token_cache import CACHE_SECONDS, MAX_CACHED, TokenCache
from deepwork.kernel.errors import StorageError


class Seconds:
    """A manual clock in seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def cache(app: Application, seconds: Seconds) -> TokenCache:
    return TokenCache(app.database, seconds)


def test_one_query_finds_which_of_many_tokens_are_valid(app: Application, cache: TokenCache, clock: Clock):
    ids = {name: make_token(app, name)[1] for name in ("good", "revoked")}
    ids |= {name: make_token(app, name, expires_days=1)[1] for name in ("soon", "late")}
    call_token_tool(app, "token_revoke", name="revoked")
    run_sql(app, "UPDATE tokens SET expires_at = expires_at + 1 WHERE name = 'late'")
    clock.advance(seconds=24 * 3600)

    assert cache.find_valid_ids([*ids.values(), "0" * 12]) == {ids["good"], ids["late"]}


def find_last_use(app: Application, id: str) -> int | None:
    with app.database.reading() as tx:
        token = TokenStore(tx).find(id)
    assert token is not None
    return token.last_used_at


def test_a_valid_token_is_found_and_cached_briefly(app: Application, cache: TokenCache, seconds: Seconds):
    _, id, _ = make_token(app, "ci", "read")

    assert not cache.is_cached(id)
    assert getattr(cache.find_valid(id), "name", None) == "ci"
    assert cache.is_cached(id)
    seconds.now += CACHE_SECONDS
    assert not cache.is_cached(id)


def test_a_token_revoked_by_another_process_is_refused_once_the_cache_expires(
    app: Application, cache: TokenCache, seconds: Seconds, location: str, tmp_path: Path, clock: Clock
):
    _, id, _ = make_token(app, "ci")
    assert cache.find_valid(id)
    other = make_app(tmp_path, location, clock)
    call_token_tool(other, "token_revoke", name="ci")
    other.close()

    seconds.now += CACHE_SECONDS

    assert cache.find_valid(id) is None
    assert CACHE_SECONDS <= 5


def test_a_token_created_by_another_process_is_found_immediately(
    app: Application, cache: TokenCache, location: str, tmp_path: Path, clock: Clock
):
    other = make_app(tmp_path, location, clock)
    _, id, _ = make_token(other, "ci")
    other.close()

    assert cache.find_valid(id)


def test_an_expired_token_is_refused(app: Application, cache: TokenCache, seconds: Seconds, clock: Clock):
    _, id, _ = make_token(app, "ci", expires_days=1)
    assert cache.find_valid(id)
    clock.advance(seconds=24 * 3600)
    seconds.now += CACHE_SECONDS

    assert cache.find_valid(id) is None


@pytest.mark.parametrize("id", ["nobody000000", "%", "", "' OR '1'='1", "_"])
def test_an_unknown_id_finds_no_token(app: Application, cache: TokenCache, id: str):
    make_token(app, "ci")

    assert cache.find_valid(id) is None


def test_the_cache_size_is_limited(app: Application, cache: TokenCache):
    _, id, _ = make_token(app, "ci")
    cache.find_valid(id)
    for number in range(MAX_CACHED):
        cache.find_valid(f"guess{number}")

    assert not cache.is_cached(id)
    assert len(cache._cached) == MAX_CACHED


def test_a_use_is_recorded_once_a_minute(app: Application, cache: TokenCache, seconds: Seconds, clock: Clock):
    _, id, _ = make_token(app, "ci")

    assert [cache.should_record_use(id) for _ in range(3)] == [True, False, False]
    cache.record_use(id)
    assert find_last_use(app, id) == NOW
    clock.advance(seconds=59)
    seconds.now += 59
    assert not cache.should_record_use(id)
    clock.advance(seconds=2)
    seconds.now += 2
    assert cache.should_record_use(id)
    cache.record_use(id)
    assert find_last_use(app, id) == NOW + 61_000


def test_a_use_recorded_by_another_process_is_not_recorded_again(
    app: Application, cache: TokenCache, clock: Clock
):
    _, id, _ = make_token(app, "ci")
    cache.record_use(id)
    clock.advance(seconds=30)

    TokenCache(app.database).record_use(id)

    assert find_last_use(app, id) == NOW


def test_a_use_that_cannot_be_recorded_does_not_stop_the_request(
    app: Application, cache: TokenCache, caplog: pytest.LogCaptureFixture
):
    _, id, secret = make_token(app, "ci")
    run_sql(app, "ALTER TABLE tokens RENAME TO tokens_away")
    try:
        cache.record_use(id)
        with pytest.raises(StorageError):
            cache.find_valid(id)
    finally:
        run_sql(app, "ALTER TABLE tokens_away RENAME TO tokens")

    assert "could not be stored" in caplog.text
    assert secret not in caplog.text
