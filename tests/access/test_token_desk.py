from __future__ import annotations

from pathlib import Path

import pytest

from access.make import ask_tokens, make_token, run
from application import NOW, Clock, make_app
from deepwork.access.desk import MAX_REMEMBERED, REMEMBERED_SECONDS, TokenDesk
from deepwork.access.store import TokenStore
from deepwork.errors import StorageError
from deepwork.server.application import Application


class Seconds:
    """A stopwatch that runs when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def desk(app: Application, seconds: Seconds) -> TokenDesk:
    return TokenDesk(app.database, seconds)


def last_use(app: Application, id: str) -> int | None:
    with app.database.reading() as tx:
        token = TokenStore(tx).find(id)
    assert token is not None
    return token.last_used_at


def test_a_valid_token_is_known_and_remembered_for_a_moment(
    app: Application, desk: TokenDesk, seconds: Seconds
):
    _, id, _ = make_token(app, "ci", "read")

    assert not desk.remembers(id)
    assert getattr(desk.valid(id), "name", None) == "ci"
    assert desk.remembers(id)
    seconds.now += REMEMBERED_SECONDS
    assert not desk.remembers(id)


def test_what_another_process_revokes_is_refused_within_that_moment(
    app: Application, desk: TokenDesk, seconds: Seconds, location: str, tmp_path: Path, clock: Clock
):
    _, id, _ = make_token(app, "ci")
    assert desk.valid(id)
    other = make_app(tmp_path, location, clock)
    ask_tokens(other, "token_revoke", name="ci")
    other.close()

    seconds.now += REMEMBERED_SECONDS

    assert desk.valid(id) is None
    assert REMEMBERED_SECONDS <= 5


def test_what_another_process_makes_is_known_at_once(
    app: Application, desk: TokenDesk, location: str, tmp_path: Path, clock: Clock
):
    other = make_app(tmp_path, location, clock)
    _, id, _ = make_token(other, "ci")
    other.close()

    assert desk.valid(id)


def test_a_token_that_has_run_out_is_refused(
    app: Application, desk: TokenDesk, seconds: Seconds, clock: Clock
):
    _, id, _ = make_token(app, "ci", expires_days=1)
    assert desk.valid(id)
    clock.advance(seconds=24 * 3600)
    seconds.now += REMEMBERED_SECONDS

    assert desk.valid(id) is None


@pytest.mark.parametrize("id", ["nobody000000", "%", "", "' OR '1'='1", "_"])
def test_an_id_that_no_token_has_is_nobodys(app: Application, desk: TokenDesk, id: str):
    make_token(app, "ci")

    assert desk.valid(id) is None


def test_only_so_many_are_remembered(app: Application, desk: TokenDesk):
    _, id, _ = make_token(app, "ci")
    desk.valid(id)
    for number in range(MAX_REMEMBERED):
        desk.valid(f"guess{number}")

    assert not desk.remembers(id)
    assert len(desk._remembered) == MAX_REMEMBERED


def test_a_use_is_written_down_once_a_minute(
    app: Application, desk: TokenDesk, seconds: Seconds, clock: Clock
):
    _, id, _ = make_token(app, "ci")

    assert [desk.wants_use_noted(id) for _ in range(3)] == [True, False, False]
    desk.used(id)
    assert last_use(app, id) == NOW
    clock.advance(seconds=59)
    seconds.now += 59
    assert not desk.wants_use_noted(id)
    clock.advance(seconds=2)
    seconds.now += 2
    assert desk.wants_use_noted(id)
    desk.used(id)
    assert last_use(app, id) == NOW + 61_000


def test_a_use_that_another_process_noted_is_not_noted_again(app: Application, desk: TokenDesk, clock: Clock):
    _, id, _ = make_token(app, "ci")
    desk.used(id)
    clock.advance(seconds=30)

    TokenDesk(app.database).used(id)

    assert last_use(app, id) == NOW


def test_a_use_that_cannot_be_written_stops_nobody(
    app: Application, desk: TokenDesk, caplog: pytest.LogCaptureFixture
):
    _, id, secret = make_token(app, "ci")
    run(app, "ALTER TABLE tokens RENAME TO tokens_away")
    try:
        desk.used(id)
        with pytest.raises(StorageError):
            desk.valid(id)
    finally:
        run(app, "ALTER TABLE tokens_away RENAME TO tokens")

    assert "could not be stored" in caplog.text
    assert secret not in caplog.text
