"""Writers that wait for each other share one commit; none of them can tell, except by the time it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.database import shared_commits
from deepwork.kernel.database.shared_commits import SharedWrite
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.store_file import SQLiteSession
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, StorageError
from patience import wait_until

Work = Callable[[], Any]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    """An application on SQLite whose writers wait for each other as long as a test needs."""
    monkeypatch.setattr(shared_commits, "LONGEST_SECONDS", 3600)
    made = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    made.database.prepare()
    made.database.has_many_callers = True
    yield made
    made.close()


@pytest.fixture
def commits(app: Application, monkeypatch: pytest.MonkeyPatch) -> list[SQLiteSession]:
    """The sessions of writers that were committed."""
    made: list[SQLiteSession] = []
    commit = SQLiteSession._commit

    def note(session: SQLiteSession) -> None:
        if session._lock is not None:
            made.append(session)
        commit(session)

    monkeypatch.setattr(SQLiteSession, "_commit", note)
    return made


def test_with_one_caller_there_is_no_queue(app: Application, monkeypatch: pytest.MonkeyPatch):
    app.database.has_many_callers = False
    monkeypatch.setattr(SharedWrite, "__enter__", None)

    agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]

    assert call_tool(app, "agent_get", id=agent)["name"] == "Ada"


def run_together(app: Application, *works: Work, change: Work = int) -> list[Future[Any]]:
    """Run the works in threads of their own: each begins to write, in this order, while a first change is made."""
    threads = ThreadPoolExecutor(len(works) + 1)
    has_begun, may_end = threading.Event(), threading.Event()

    def hold_turn() -> None:
        with app.database.transaction(shares_commit=True):
            has_begun.set()
            may_end.wait()
            change()

    with threads:
        running = [threads.submit(hold_turn)]
        has_begun.wait()
        for number, work in enumerate(works, 1):
            running.append(threads.submit(work))
            wait_until(partial(has_waiting, app, number))
        may_end.set()
    return running


def has_waiting(app: Application, number: int) -> bool:
    engine = app.database.engine
    assert isinstance(engine, SQLite)
    return len(engine._queue._queue) == number


def add_lease(app: Application, what: str, then: Callable[[Transaction], object] = id) -> Callable[[], None]:
    def add() -> None:
        with app.database.transaction(shares_commit=True) as tx:
            tx.insert("leases", {"what": what, "who": None, "epoch": 1, "until": 0})
            tx.emit("test:added", {"what": what})
            then(tx)

    return add


def list_leases(app: Application) -> list[str]:
    with app.database.reading() as tx:
        return [row["what"] for row in tx.fetch_all("SELECT what FROM leases ORDER BY what")]


def list_emitted(app: Application) -> list[tuple[int, str]]:
    return [(event.seq, event.data["what"]) for event in list_events(app)]


def fail(_: Transaction) -> None:
    raise KeyError("no")


def interrupt(_: Transaction) -> None:
    raise KeyboardInterrupt


def test_writers_that_wait_are_committed_together_in_the_order_in_which_they_came(
    app: Application, commits: list[SQLiteSession]
):
    run_together(app, *(add_lease(app, name) for name in "cab"))

    assert len(commits) == 1
    assert list_emitted(app) == [(1, "c"), (2, "a"), (3, "b")]


def test_a_writer_that_nobody_waits_for_commits_at_once(app: Application, commits: list[SQLiteSession]):
    for name in "ab":
        add_lease(app, name)()

    assert len(commits) == 2
    assert list_leases(app) == ["a", "b"]


def test_each_change_sees_those_before_it(app: Application):
    seen: list[int] = []

    def look(tx: Transaction) -> None:
        seen.append(tx.fetch_value("SELECT count(*) FROM leases"))

    run_together(app, *(add_lease(app, name, look) for name in "abc"))

    assert seen == [1, 2, 3]


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize(("problem", "error"), [(fail, KeyError), (interrupt, KeyboardInterrupt)])
def test_a_change_that_fails_leaves_the_others_and_no_gap(
    app: Application,
    commits: list[SQLiteSession],
    failing: int,
    problem: Callable[[Transaction], None],
    error: type[BaseException],
):
    names = ["a", "b", "c"]

    works = [add_lease(app, name, problem if place == failing else id) for place, name in enumerate(names)]
    _, *done = run_together(app, *works)

    kept = [name for place, name in enumerate(names) if place != failing]
    assert [type(each.exception()) for each in done].count(error) == 1
    assert type(done[failing].exception()) is error
    assert len(commits) == 1
    assert list_emitted(app) == list(enumerate(kept, 1))
    assert list_leases(app) == kept


def test_a_statement_that_fails_leaves_the_changes_of_others(app: Application):
    def repeat(tx: Transaction) -> None:
        tx.insert("leases", {"what": "a", "who": None, "epoch": 1, "until": 0})

    _, *done = run_together(app, add_lease(app, "a"), add_lease(app, "b", repeat), add_lease(app, "c"))

    assert [type(each.exception()) for each in done] == [type(None), StorageError, type(None)]
    assert list_leases(app) == ["a", "c"]


def test_a_first_change_that_fails_keeps_nobody_from_writing(app: Application):
    def refuse() -> None:
        raise KeyError("no")

    first, *done = run_together(app, add_lease(app, "a"), add_lease(app, "b"), change=refuse)

    assert isinstance(first.exception(), KeyError)
    assert [each.exception() for each in done] == [None, None]
    assert list_leases(app) == ["a", "b"]


def test_when_the_disk_is_full_no_change_of_a_shared_commit_is_confirmed_or_stored(app: Application):
    add_lease(app, "before")()

    def fill(tx: Transaction) -> None:
        pages = tx.fetch_value("PRAGMA page_count")
        tx.fetch_value(f"PRAGMA max_page_count = {pages}")
        tx.execute("UPDATE leases SET what = what || hex(zeroblob(1000000)) WHERE what = 'b'")

    first, *done = run_together(app, add_lease(app, "a"), add_lease(app, "b", fill), add_lease(app, "c"))

    lost = [first, *done[:2]]
    assert [each.exception().code for each in lost] == [Code.STORAGE_FULL] * 3  # type: ignore[union-attr]
    assert done[2].exception() is None  # it began anew
    assert list_leases(app) == ["before", "c"]
    assert list_emitted(app) == [(1, "before"), (2, "c")]


def test_a_commit_that_fails_is_the_error_of_everybody_who_waits_for_it(app: Application, tmp_path: Path):
    def remove_store(_: Transaction) -> None:
        for path in tmp_path.glob("deepwork.db*"):
            if path.suffix != ".lock":
                path.unlink()

    done = run_together(app, add_lease(app, "a"), add_lease(app, "b", remove_store))

    assert [type(each.exception()) for each in done] == [StorageError] * 3
    add_lease(app, "c")()
    assert list_leases(app) == ["c"]


def test_a_change_is_not_refused_for_what_is_never_stored(app: Application, tmp_path: Path):
    def refuse_second(tx: Transaction) -> None:
        if tx.fetch_value("SELECT count(*) FROM leases") > 1:
            raise KeyError("taken")

    def remove_store(_: Transaction) -> None:
        (tmp_path / "deepwork.db").unlink()

    _, *done = run_together(
        app, add_lease(app, "a"), add_lease(app, "b", refuse_second), add_lease(app, "c", remove_store)
    )

    assert [type(each.exception()) for each in done] == [StorageError] * 3


def test_nobody_returns_and_nothing_that_follows_runs_before_the_commit(
    app: Application, commits: list[SQLiteSession]
):
    after: list[tuple[int, list[str]]] = []

    def follow(tx: Transaction) -> None:
        def act() -> ActionOutcome | None:
            after.append((len(commits), list_leases(app)))
            return None

        tx.after_commit(act)

    run_together(app, add_lease(app, "a", follow), add_lease(app, "b", follow))

    assert after == [(1, ["a", "b"])] * 2


def test_what_follows_a_shared_commit_may_write(app: Application):
    def follow(tx: Transaction) -> None:
        tx.after_commit(add_lease(app, f"after {threading.get_ident()}"))

    done = run_together(app, add_lease(app, "a", follow), add_lease(app, "b", follow))

    assert [each.exception() for each in done] == [None] * 3
    assert len(list_leases(app)) == 4


def test_a_change_of_many_rows_is_never_part_of_a_shared_commit(
    app: Application, commits: list[SQLiteSession]
):
    def add_alone() -> None:
        with app.database.transaction() as tx:
            tx.insert("leases", {"what": "long", "who": None, "epoch": 1, "until": 0})

    with ThreadPoolExecutor(1) as alone:
        run_together(app, add_lease(app, "a"), change=lambda: alone.submit(add_alone))

    assert len(commits) == 2
    assert list_leases(app) == ["a", "long"]


def test_a_shared_commit_takes_only_so_many_changes(
    app: Application, commits: list[SQLiteSession], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared_commits, "MOST_CHANGES", 3)

    run_together(app, *(add_lease(app, name) for name in "abcde"))

    assert len(commits) == 2
    assert list_leases(app) == [*"abcde"]


def test_a_shared_commit_takes_no_change_after_its_time(
    app: Application, commits: list[SQLiteSession], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared_commits, "LONGEST_SECONDS", 0)

    run_together(app, *(add_lease(app, name) for name in "abc"))

    assert len(commits) == 4


def test_a_writer_that_waited_too_long_gives_up_and_others_go_on(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    def give_up() -> None:
        monkeypatch.setattr(shared_commits, "WRITE_TIMEOUT", 0.01)
        with pytest.raises(StorageError) as late:
            add_lease(app, "late")()
        gave_up.append(late.value)

    gave_up: list[StorageError] = []
    with ThreadPoolExecutor(1) as other:
        run_together(app, add_lease(app, "a"), change=lambda: other.submit(give_up).result())

    assert [error.recoverable for error in gave_up] == [True]
    assert list_leases(app) == ["a"]


def test_calls_that_share_a_commit_have_their_own_audit_entries_and_answers(
    app: Application, commits: list[SQLiteSession]
):
    def register(name: str) -> Work:
        return lambda: call_tool(app, "agent_register", caller=name, name=name, runtime="custom")["name"]

    _, *done = run_together(app, register("ada"), register("bob"))

    assert len(commits) == 1
    assert [each.result() for each in done] == ["ada", "bob"]
    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT caller, tool, outcome FROM audit ORDER BY seq")
    assert [(row["caller"], row["outcome"]) for row in rows] == [("ada", "done"), ("bob", "done")]


def test_calls_with_one_key_in_a_shared_commit_have_one_effect(
    app: Application, commits: list[SQLiteSession]
):
    def register() -> Any:
        return call_tool(app, "agent_register", "key", name="ada", runtime="custom")["id"]

    _, *done = run_together(app, register, register)

    assert len(commits) == 1
    assert done[0].result() == done[1].result()
    assert call_tool(app, "agent_list")["total"] == 1
