"""A copy contains the whole store, or nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from application import call_tool, list_events, skip_or_fail
from deepwork.edge.server.application import Application
from deepwork.kernel.database import schema
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.tables import Table, Values, find_first_difference, sort_by_reference
from deepwork.kernel.errors import DeepworkError, NotAllowed, StorageError
from deepwork.kernel.store_admin.copying import CopyResult, copy_store
from store_admin.conftest import TASKS, Place, some_or_all
from store_admin.stores import (
    KEY,
    PATIENCE,
    corrupt_page,
    create_older_store,
    is_empty,
    open_store,
    read_all_rows,
    run_sql,
    run_until_killed_at,
)

# Stores of 10,000 tasks are slow to create on a busy machine.
pytestmark = pytest.mark.timeout(600)

KINDS = ("sqlite", "postgres")
WAYS = [(one, other) for one in KINDS for other in KINDS]
ways = pytest.mark.parametrize(("one", "other"), WAYS)
kinds = pytest.mark.parametrize("kind", KINDS)


def copy_locations(source: str, target: str) -> CopyResult:
    old, new = open_engine(source), open_engine(target)
    try:
        return copy_store(old, new)
    finally:
        old.close()
        new.close()


@contextmanager
def open_app(folder: Path, location: str) -> Iterator[Application]:
    app = open_store(folder, location)
    yield app
    app.close()


def test_tables_are_sorted_after_those_they_refer_to():
    tables = [
        Table("answers", ("id",), ("id",), frozenset({"questions", "answers"})),
        Table("questions", ("id",), ("id",), frozenset({"people"})),
        Table("people", ("id",), ("id",)),
    ]

    assert [table.name for table in sort_by_reference(tables)] == ["people", "questions", "answers"]


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "b")], None),
        ([(1, True)], [(1, 1)], None),
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "B")], (2,)),
        ([(1, "a"), (2, "b")], [(1, "a")], (2,)),
        ([(2, "b")], [(1, "a"), (2, "b")], (2,)),
        ([(1, None)], [(1, "")], (1,)),
        ([(1, "1")], [(1, 1)], (1,)),
        ([], [(7, "a")], (7,)),
    ],
)
def test_the_first_difference_is_found(one: list[Values], other: list[Values], where: Values | None):
    assert find_first_difference(Table("t", ("id", "name"), ("id",)), one, other) == where


def test_rows_without_a_key_may_come_in_any_order_but_not_be_missing():
    words = Table("words", ("id", "said"), words=frozenset({"said"}))

    assert find_first_difference(words, [("a", "x"), ("a", "y")], [("a", "y"), ("a", "x")]) is None
    assert find_first_difference(words, [("a", "x"), ("a", "x")], [("a", "x")]) == ("a",)


@ways
def test_every_row_is_copied(filled: Callable[[str], str], place: Place, one: str, other: str):
    source, target = filled(one), place(other)

    done = copy_locations(source, target)

    before, after = read_all_rows(source), read_all_rows(target)
    assert after == before
    counts = {name: len(rows) for name, rows in before.items() if name != "alembic_version"}
    assert (done.schema, done.rows) == (schema.HEAD, counts)
    assert (
        min(counts[name] for name in ("messages", "plan_tasks", "checkpoints", "job_sessions", "templates"))
        > 0
    )


@ways
def test_tools_answer_from_a_copy_as_from_the_original(
    filled: Callable[[str], str], place: Place, tmp_path: Path, one: str, other: str
):
    source, target = filled(one), place(other)
    copy_locations(source, target)

    with open_app(tmp_path, source) as old, open_app(tmp_path, target) as new:
        [workflow] = call_tool(old, "workflow_list")["workflows"]
        agents = [agent["id"] for agent in call_tool(old, "agent_list")["agents"]]
        for tool, arguments in [
            ("agent_list", {}),
            *(("message_list", {"agent_id": agent}) for agent in agents),
            ("workflow_get", {"id": workflow["id"], "include_tasks": True, "include_history": True}),
            ("workflow_next_tasks", {"workflow_id": workflow["id"]}),
            ("template_list", {"template_id": "ours"}),
        ]:
            assert call_tool(new, tool, **arguments) == call_tool(old, tool, **arguments)
        for words in ("echo", "unico", "日", "progress", "steps"):
            found, expected = (
                [hit["id"] for hit in call_tool(app, "workflow_search", query=words)["results"]]
                for app in (new, old)
            )
            assert sorted(found) == sorted(expected)
        assert call_tool(new, "workflow_search", query="echo")["total"] == 1
        assert list_events(new) == list_events(old)


@ways
def test_work_continues_in_a_copy(
    filled: Callable[[str], str], place: Place, tmp_path: Path, one: str, other: str
):
    target = place(other)
    copy_locations(filled(one), target)

    with open_app(tmp_path, target) as app:
        numbers = [event.seq for event in list_events(app)]
        agents = call_tool(app, "agent_list")["total"]
        # A repeated call has no new effect; the claim still belongs to its holder; numbers have no gap.
        call_tool(app, "agent_register", KEY, name="once", runtime="custom")
        assert call_tool(app, "agent_list")["total"] == agents
        newcomer = call_tool(app, "agent_register", name="new", runtime="custom")["id"]
        assert _agents_by_creation(app)[-1] == newcomer, "numbers go on after those of the copied rows"
        with app.database.reading() as tx:
            claimed = tx.fetch_value("SELECT id FROM plan_tasks WHERE claimed_by IS NOT NULL")
        assert call_tool(app, "task_claim", task_id=claimed, agent_id=newcomer)["reason"] == "claimed"
        assert [event.seq for event in list_events(app)] == [*numbers, numbers[-1] + 1]


def _agents_by_creation(app: Application) -> list[str]:
    with app.database.reading() as tx:
        return [row["id"] for row in tx.fetch_all("SELECT id FROM agents ORDER BY created_seq")]


def test_a_copy_of_a_copy_equals_the_original(filled: Callable[[str], str], place: Place):
    source = filled("sqlite")
    stations = [place("postgres"), place("postgres"), place("sqlite")]

    for before, after in zip([source, *stations], stations, strict=False):
        copy_locations(before, after)

    assert read_all_rows(stations[-1]) == read_all_rows(source)


@pytest.mark.thorough
@pytest.mark.parametrize(("one", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_ten_thousand_tasks_are_copied(
    large: Callable[..., str], place: Place, tmp_path: Path, one: str, other: str
):
    source, target = large(one), place(other)

    assert copy_locations(source, target).rows["plan_tasks"] == TASKS

    assert read_all_rows(target) == read_all_rows(source)
    with open_app(tmp_path, source) as old, open_app(tmp_path, target) as new:
        [workflow] = call_tool(new, "workflow_list")["workflows"]
        assert call_tool(new, "workflow_progress", workflow_id=workflow["id"]) == call_tool(
            old, "workflow_progress", workflow_id=workflow["id"]
        )


TOMORROW = (
    "CREATE TABLE zoo (id TEXT PRIMARY KEY)",
    'CREATE TABLE "a first" (id TEXT PRIMARY KEY, "order" BOOLEAN, later TEXT REFERENCES zoo (id))',
)


@ways
def test_tables_added_later_are_copied_too(place: Place, one: str, other: str):
    source, target = place(one), place(other)
    for location in (source, target):
        engine = open_engine(location)
        engine.prepare()
        engine.close()
        run_sql(location, *TOMORROW)
    run_sql(
        source,
        "INSERT INTO zoo VALUES ('z')",
        "INSERT INTO \"a first\" VALUES ('a', true, 'z'), ('b', false, NULL)",
    )

    assert copy_locations(source, target).rows["a first"] == 2


@ways
def test_a_copy_is_a_consistent_snapshot_during_writes(place: Place, tmp_path: Path, one: str, other: str):
    source, is_over, written = place(one), threading.Event(), threading.Event()
    app = open_store(tmp_path, source)

    def write() -> None:
        while not is_over.is_set():
            sender = call_tool(app, "agent_register", name="busy", runtime="custom")["id"]
            call_tool(
                app, "message_send", sender_id=sender, recipient_id=sender, message_type="query", body="x"
            )
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(PATIENCE)
        targets = [place(other) for _ in range(3)]
        for target in targets:
            copy_locations(source, target)
    finally:
        is_over.set()
        writer.join()
        app.close()

    for target in targets:
        found = read_all_rows(target)
        numbers = sorted(row["seq"] for row in found["events"])
        assert numbers == list(range(1, len(numbers) + 1))
        assert found["event_sequence"] == [{"last_seq": len(numbers)}]
        told = [row["type"] for row in found["events"]]
        assert told.count("agent:registered") == len(found["agents"])
        assert told.count("message:created") == len(found["messages"])


@ways
def test_a_target_with_data_is_refused_and_unchanged(
    filled: Callable[[str], str], place: Place, tmp_path: Path, one: str, other: str
):
    target = place(other)
    with open_app(tmp_path, target) as app:
        call_tool(app, "agent_register", name="Ada", runtime="custom")
    before = read_all_rows(target)

    with pytest.raises(NotAllowed, match="not empty: it holds 1 row in agents, "):
        copy_locations(filled(one), target)

    assert read_all_rows(target) == before


@kinds
def test_a_difference_is_reported_and_the_copy_is_discarded(
    filled: Callable[[str], str], place: Place, kind: str
):
    source, target = filled("sqlite"), place(kind)
    engine = open_engine(target)
    engine.prepare()
    engine.close()
    first = min(row["id"] for row in read_all_rows(source)["agents"])
    run_sql(target, *CHANGING[kind])

    with pytest.raises(StorageError, match=rf"differs from .* in agents with id '{first}'"):
        copy_locations(source, target)

    assert is_empty(target)


CHANGING = {
    "sqlite": [
        "CREATE TRIGGER spoil AFTER INSERT ON agents BEGIN UPDATE agents SET name = name || '!' WHERE id = NEW.id; END"
    ],
    "postgres": [
        """CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN NEW.name = NEW.name || '!'; RETURN NEW; END $$""",
        "CREATE TRIGGER spoil BEFORE INSERT ON agents FOR EACH ROW EXECUTE FUNCTION spoil()",
    ],
}
LOSING = {
    "sqlite": [
        "CREATE TRIGGER lose BEFORE INSERT ON events WHEN NEW.seq = 3 BEGIN SELECT RAISE(IGNORE); END"
    ],
    "postgres": [
        "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER lose BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.seq = 3) EXECUTE FUNCTION lose()",
    ],
}


@kinds
def test_a_missing_row_is_reported(filled: Callable[[str], str], place: Place, kind: str):
    target = place(kind)
    engine = open_engine(target)
    engine.prepare()
    engine.close()
    run_sql(target, *LOSING[kind])

    with pytest.raises(StorageError, match="in events with seq 3;"):
        copy_locations(filled("sqlite"), target)

    assert is_empty(target)


@kinds
def test_an_older_store_is_refused_with_a_suggestion_and_not_changed(place: Place, tmp_path: Path, kind: str):
    old, target = create_older_store("0003", tmp_path / "old.db"), place(kind)
    before = old.read_bytes()

    with pytest.raises(NotAllowed, match=rf"old\.db has schema 0003.*{schema.HEAD}") as refused:
        copy_locations(str(old), target)

    assert "Open it once" in refused.value.suggestion
    assert old.read_bytes() == before
    assert kind == "postgres" or not Path(target).exists()
    assert is_empty(target)


@ways
def test_a_newer_store_is_refused_as_source_and_as_target(
    filled: Callable[[str], str], place: Place, one: str, other: str
):
    newer, sound = place(one), filled(other)
    engine = open_engine(newer)
    engine.prepare()
    engine.close()
    run_sql(newer, "UPDATE alembic_version SET version_num = '9999'")

    for source, target in ((newer, place(other)), (sound, newer)):
        with pytest.raises(StorageError, match="9999") as refused:
            copy_locations(source, target)
        assert "Update deepwork" in refused.value.suggestion


def test_a_location_that_is_not_a_store_is_reported_and_not_changed(
    filled: Callable[[str], str], place: Place, tmp_path: Path
):
    notes, other = tmp_path / "notes.txt", tmp_path / "other.db"
    notes.write_text("precious")
    run_sql(str(other), "CREATE TABLE songs (name)", "INSERT INTO songs VALUES ('la')")
    before = other.read_bytes()

    for source, target, complaint in [
        (str(notes), place("sqlite"), "notes.txt is not a SQLite file"),
        (filled("sqlite"), str(notes), "notes.txt is not a SQLite file"),
        (str(tmp_path / "none.db"), place("sqlite"), "There is no store at .*none.db"),
        (str(other), place("sqlite"), "other.db is not a deepwork store"),
        (filled("sqlite"), str(other), "other.db holds tables that are not deepwork's: songs"),
        (str(tmp_path), place("sqlite"), "There is no store"),
    ]:
        with pytest.raises(DeepworkError, match=complaint):
            copy_locations(source, target)

    assert notes.read_text() == "precious"
    assert other.read_bytes() == before
    assert not (tmp_path / "none.db").exists()


def test_tables_that_are_not_deepworks_are_not_changed(filled: Callable[[str], str], place: Place):
    target = place("postgres")
    run_sql(target, "CREATE TABLE songs (name TEXT)")

    with pytest.raises(NotAllowed, match="not deepwork's: songs"):
        copy_locations(filled("sqlite"), target)


@kinds
def test_a_damaged_source_is_reported_and_the_target_stays_empty(
    filled: Callable[[str], str], place: Place, tmp_path: Path, kind: str
):
    source, target = tmp_path / "bad" / "deepwork.db", place(kind)
    copy_locations(filled("sqlite"), str(source))
    corrupt_page(source, "messages")

    with pytest.raises(StorageError, match=r"bad/deepwork\.db is damaged"):
        copy_locations(str(source), target)

    assert is_empty(target)


def test_text_that_a_server_cannot_store_is_reported(place: Place, tmp_path: Path):
    source, target = place("sqlite"), place("postgres")
    with open_app(tmp_path, source) as app:
        id = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
    run_sql(source, "UPDATE agents SET name = 'A' || char(0) || 'da'")

    with pytest.raises(StorageError, match=f"name in agents with id '{id}' contains a NUL"):
        copy_locations(source, target)

    assert is_empty(target)


@some_or_all
@kinds
def test_a_kill_in_the_middle_leaves_the_target_empty(
    large: Callable[..., str], place: Place, kind: str, tasks: int
):
    source, target = large("sqlite", tasks), place(kind)

    for stage, rows in (("Copying", 500), ("Copying", tasks), ("Comparing", 0), ("Comparing", tasks)):
        run_until_killed_at(stage, rows, "db", "copy", source, target)
        assert is_empty(target)

    assert copy_locations(source, target).rows["plan_tasks"] == tasks
    assert read_all_rows(target) == read_all_rows(source)


MEASURED = """
import sys
from deepwork.kernel.store_admin.copying import copy_store
from deepwork.kernel.database.opening import open_engine
copy_store(*map(open_engine, sys.argv[1:]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.thorough
def test_a_copy_needs_no_more_memory_than_a_few_rows(place: Place, tmp_path: Path):
    if not Path("/proc/self/status").exists():
        skip_or_fail("this system does not report how much memory a process needed")
    file, server, back = place("sqlite"), place("postgres"), place("sqlite")
    with open_app(tmp_path, file) as app:
        id = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
        for number in range(150):
            text = f"{number} " * (1_000_000 // len(f"{number} "))
            call_tool(app, "message_send", sender_id=id, recipient_id=id, message_type="query", body=text)
    assert Path(file).stat().st_size > 130 * 1024 * 1024

    for source, target in ((file, server), (server, back)):
        ran = subprocess.run(
            [sys.executable, "-c", MEASURED, source, target], capture_output=True, text=True, check=True
        )
        assert int(ran.stdout) < 140 * 1024
