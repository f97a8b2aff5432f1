"""A repository that brings its own store: nothing of it counts until a person adopts it, and then no token does."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from access.make import list_outcomes, make_token, verify_audit
from access.other_users import create_repository, fill_store, run_git, use_home
from application import call_tool, list_events, make_app
from dashboard.make import create_client
from deepwork.delivery.store_adoption import NAME_COLUMNS, adopt_store, mark_json
from deepwork.edge.server.application import Application
from deepwork.edge.server.http.serving import serve_http
from deepwork.gates.access.models import matches_secret
from deepwork.gates.access.store import TokenStore
from deepwork.kernel.database.schema import MARKED_SINCE, get_snapshot_path
from deepwork.kernel.database.seals import read_identity
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.errors import Code, StorageError, StoreNotAdopted
from deepwork.views.hooks.dispatch import dispatch_event
from deepwork.views.hooks.protocol import EVENTS, SESSION_START, parse_event
from hooks.make import build_event
from store_admin.stores import read_all_rows, run_sql

PERSON = "human:ada"


@dataclass(frozen=True)
class Clone:
    """A clone of the attacker's repository, and the admin token that the attacker knows."""

    project: Path
    token: str

    @property
    def store(self) -> Path:
        return self.project / ".deepwork" / "deepwork.db"

    def adopt(self) -> None:
        run_git(self.project, "rm", "-q", "--cached", ".deepwork/deepwork.db")
        adopt_store(SQLite(self.store), PERSON)


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("attacker")
    with use_home(folder / "home"):
        repository = create_repository(folder / "repository")
        token = fill_store(repository)
        run_git(repository, "add", "-f", ".deepwork/deepwork.db")
        run_git(repository, "commit", "-qm", "A useful project")
    return repository, token


@pytest.fixture
def clone(attack: tuple[Path, str], tmp_path: Path) -> Clone:
    project = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", attack[0], project], check=True)
    return Clone(project, attack[1])


@pytest.fixture
def app(clone: Clone) -> Iterator[Application]:
    made = make_app(clone.project, "")
    yield made
    made.close()


def test_no_tool_uses_the_store_of_a_repository(clone: Clone, app: Application):
    before = clone.store.read_bytes()

    for tool, given in (("agent_list", {}), ("agent_register", {"name": "Ada", "runtime": "custom"})):
        with pytest.raises(StoreNotAdopted) as refused:
            call_tool(app, tool, **given)

    assert refused.value.code is Code.STORE_NOT_ADOPTED
    assert "git rm --cached" in refused.value.suggestion
    assert "deepwork db adopt" in refused.value.suggestion
    assert clone.store.read_bytes() == before
    assert not list(clone.store.parent.glob("*.backup"))


def test_the_attackers_token_gets_nothing_over_rest(clone: Clone, app: Application):
    for path in ("/runs", "/agents", "/issues", "/events"):
        answer = create_client(app, clone.token).get(f"/api/v1{path}")
        assert answer.status_code == 503
        assert "Eve" not in answer.text


def test_the_owner_is_told_what_to_do_over_rest(app: Application):
    answer = create_client(app).get("/api/v1/runs")

    assert (answer.status_code, answer.json()["code"]) == (503, "STORE_NOT_ADOPTED")


def test_no_server_starts_on_the_network(app: Application):
    with pytest.raises(StoreNotAdopted):
        anyio.run(serve_http, app, None, None)


def test_a_hook_prints_one_line_and_nothing_of_the_store(clone: Clone, app: Application):
    event = parse_event(
        "claude-code", build_event(cwd=str(clone.project), tool_name="mcp__deepwork__agent_list")
    )

    printed = {kind: dispatch_event(kind, app.settings, event) for kind in EVENTS}

    assert "deepwork doctor" in printed.pop(SESSION_START)
    assert set(printed.values()) == {""}


def test_the_token_is_not_valid_after_the_adoption_either(clone: Clone):
    clone.adopt()
    app = make_app(clone.project, "")
    try:
        assert create_client(app).get("/api/v1/runs").status_code == 200
        for headers in ({}, {"cookie": f"deepwork_8765={clone.token}"}):
            assert create_client(app, clone.token).get("/api/v1/runs", headers=headers).status_code == 401
        run_sql(str(clone.store), "UPDATE tokens SET revoked_at = NULL")
        assert create_client(app, clone.token).get("/api/v1/runs").status_code == 401
    finally:
        app.close()


def test_an_adoption_keeps_the_data_and_marks_what_people_did(clone: Clone):
    before = read_all_rows(str(clone.store))
    clone.adopt()
    app = make_app(clone.project, "")
    try:
        [issue] = read_all_rows(str(clone.store))["issues"]
        assert issue["resolved_by"] == "unverified:human:owner"
        assert issue | {"resolved_by": "human:owner"} == before["issues"][0]
        assert [agent["name"] for agent in call_tool(app, "agent_list")["agents"]] == ["Eve"]
        resolved = [event.data for event in list_events(app) if event.type == "issue:resolved"]
        assert [data["resolved_by"] for data in resolved] == ["unverified:human:owner"]
        assert "human:owner" not in str(create_client(app).get("/api/v1/issues").json()).replace(
            "unverified:human:owner", ""
        )
        assert read_all_rows(str(clone.store))["passed_reviews"] == []
        assert read_all_rows(str(clone.store))["person_credentials"] == []
    finally:
        app.close()


def test_an_adoption_ends_the_runs_that_would_start_a_command(clone: Clone):
    run = "'run_1', '/', 'active', '[\"sh -c evil\"]', '{}', 'human:eve', 1, 1"
    attempt = "'at_1', 'run_1', 'tk_1', 1, 'sh -c evil', 'command', 'ag_1', 1, 'claimed', 'local', '{}', 1, 1"
    store = str(clone.store)
    columns = "id, repository_path, status, chain, settings, created_by, created_at, updated_at"
    run_sql(store, f"INSERT INTO runner_runs ({columns}) VALUES ({run})")
    run_sql(
        store, "INSERT INTO runner_hosts (run_id, host, agents, joined_at) VALUES ('run_1', 'local', 1, 1)"
    )
    columns = "id, run_id, task_id, number, profile, vendor, agent_id, claim_epoch, stage, host, stream_state"
    run_sql(store, f"INSERT INTO attempts ({columns}, created_at, updated_at) VALUES ({attempt})")

    clone.adopt()

    rows = read_all_rows(str(clone.store))
    [ended], [stopped] = rows["runner_runs"], rows["attempts"]
    assert (ended["status"], stopped["stage"]) == ("stopped", "stopped")
    assert None not in (ended["ended_at"], stopped["ended_at"])


def test_an_adoption_ends_landings_and_rewinds_and_doubts_links(clone: Clone):
    store = str(clone.store)
    landing = "'ld_1', 'task', 'tk_1', 'Evil', 'local', '/', 'main', 'moving', 1, 'human:eve', 1, 1"
    columns = "id, kind, subject_id, title, host, repository_path, target, status, done_at, created_by"
    run_sql(store, f"INSERT INTO landings ({columns}, created_at, updated_at) VALUES ({landing})")
    columns = "id, workflow_id, task_id, number, target, dependents, stage, host, digest, steps, results"
    for id, stage, ended in (("rw_1", "done", "1"), ("rw_2", "rescued", "NULL")):
        rewind = f"'{id}', 'wf_1', '{id}', 1, 'start', 'keep', '{stage}', 'local', 'd', '{{}}', '{{}}'"
        times = "created_by, created_at, updated_at, ended_at"
        run_sql(
            store, f"INSERT INTO rewinds ({columns}, {times}) VALUES ({rewind}, 'human:eve', 1, 1, {ended})"
        )
    columns = "commit_hash, task_id, known_by, tree_before, tree, recorded_at"
    run_sql(store, f"INSERT INTO commit_links ({columns}) VALUES ('c', 'tk_1', 'runner', '', 't', 1)")

    clone.adopt()

    rows = read_all_rows(store)
    [landed] = rows["landings"]
    assert (landed["status"], landed["created_by"]) == ("cancelled", "unverified:human:eve")
    assert [(each["stage"], each["ended_at"] is None) for each in rows["rewinds"]] == [
        ("cancelled", False)
    ] * 2
    assert [each["is_likely"] for each in rows["commit_links"]] == [1]


def test_an_agent_with_the_name_of_a_person_is_marked(clone: Clone):
    """It is the sender of its messages, which other agents read."""
    run_sql(str(clone.store), "UPDATE agents SET name = '\u200bhuman:owner'")

    clone.adopt()

    assert list_names(clone.project) == ["unverified:\u200bhuman:owner"]


def test_an_adoption_is_recorded_and_says_what_it_cannot_verify(clone: Clone):
    clone.adopt()
    app = make_app(clone.project, "")
    try:
        call_tool(app, "agent_register", name="Ada", runtime="custom")
        verdict = verify_audit(app)
        tools = [tool for tool, _ in list_outcomes(app)]
    finally:
        app.close()

    adopted = tools.index("db adopt")
    assert verdict.problem is None
    assert verdict.unkeyed_rows == adopted > 0
    assert verdict.rows == adopted + 2


def test_the_old_file_is_kept(clone: Clone):
    before = read_all_rows(str(clone.store))

    run_git(clone.project, "rm", "-q", "--cached", ".deepwork/deepwork.db")
    adopted = adopt_store(SQLite(clone.store), PERSON)

    assert read_all_rows(str(adopted.kept)) == before
    assert adopted.kept.stat().st_mode & 0o077 == 0
    assert adopted.revoked_tokens == 1


def test_nothing_but_rows_comes_along(clone: Clone):
    """A trigger of the attacker would undo the revocation, or write what it likes later."""
    run_sql(
        str(clone.store),
        "CREATE TRIGGER again AFTER UPDATE OF revoked_at ON tokens WHEN NEW.revoked_at IS NOT NULL BEGIN"
        " UPDATE tokens SET revoked_at = NULL WHERE id = NEW.id; END",
        "CREATE TABLE payload (text)",
        "DROP TABLE payload",
    )

    clone.adopt()

    with closing(sqlite3.connect(clone.store)) as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'again'").fetchall()
    with closing(sqlite3.connect(clone.store)) as file:
        [(digest,)] = file.execute("SELECT digest FROM tokens").fetchall()
    app = make_app(clone.project, "")
    try:
        assert create_client(app, clone.token).get("/api/v1/runs").status_code == 401
    finally:
        app.close()
    assert digest


UNDO_SQL = """
CREATE TRIGGER resolved AFTER UPDATE ON issues
BEGIN UPDATE issues SET resolved_by = 'human:owner' WHERE id = NEW.id; END;
CREATE TRIGGER logged AFTER UPDATE ON milestones
BEGIN UPDATE milestones SET logged_by_person = 'human:owner' WHERE id = NEW.id; END;
CREATE TRIGGER passed AFTER DELETE ON passed_reviews
BEGIN INSERT INTO passed_reviews SELECT 'rv_again', 1 WHERE OLD.mark <> 'rv_again'; END;
CREATE TRIGGER valid AFTER UPDATE ON tokens
BEGIN UPDATE tokens SET revoked_at = NULL, digest = OLD.digest WHERE id = NEW.id; END;
"""
"""What a file can bring along to undo the changes of an adoption."""


def add_milestone_of_a_person(clone: Clone) -> None:
    run_sql(
        str(clone.store),
        "INSERT INTO milestones (id, workflow_id, task_id, task_name, message, created_at, logged_by_person)"
        " SELECT 'ml_1', workflow_id, id, name, 'Approved', 1, 'human:owner' FROM tracked_tasks LIMIT 1",
    )


def require_nothing_verified(store: Path) -> None:
    rows = read_all_rows(str(store))
    assert {issue["resolved_by"] for issue in rows["issues"]} == {"unverified:human:owner"}
    assert {milestone["logged_by_person"] for milestone in rows["milestones"]} == {None}
    assert rows["passed_reviews"] == rows["person_credentials"] == []
    assert all(token["revoked_at"] for token in rows["tokens"])


def test_triggers_do_not_undo_an_adoption(clone: Clone):
    add_milestone_of_a_person(clone)
    with closing(sqlite3.connect(clone.store)) as file:
        file.executescript(UNDO_SQL)

    clone.adopt()

    require_nothing_verified(clone.store)


def test_conflict_clauses_do_not_undo_an_adoption(clone: Clone):
    """A change that a table ignores fails without an error."""
    add_milestone_of_a_person(clone)
    with closing(sqlite3.connect(clone.store)) as file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'logged_by_person TEXT',"
            " 'logged_by_person TEXT NOT NULL ON CONFLICT IGNORE') WHERE name = 'milestones'"
        )
        file.commit()

    clone.adopt()

    require_nothing_verified(clone.store)


# Stores of this user


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_repository(tmp_path / "ours")


def fill_own(project: Path, name: str = "Ada") -> Path:
    made = make_app(project, "")
    call_tool(made, "agent_register", name=name, runtime="custom")
    made.close()
    return project / ".deepwork" / "deepwork.db"


def list_names(project: Path) -> list[str]:
    app = make_app(project, "")
    try:
        return [agent["name"] for agent in call_tool(app, "agent_list")["agents"]]
    finally:
        app.close()


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_a_store_of_our_own_that_git_tracks_is_refused(project: Path, suffix: str):
    store = fill_own(project)
    tracked = store.with_name(store.name + suffix)
    if suffix:
        tracked.write_bytes(b"pages of others")
    run_git(project, "add", "-f", str(tracked))

    with pytest.raises(StoreNotAdopted, match="git tracks"):
        list_names(project)

    run_git(project, "rm", "-q", "--cached", str(tracked))
    if suffix:
        tracked.unlink()
    assert list_names(project) == ["Ada"]


@pytest.mark.parametrize(("version", "is_early"), [(MARKED_SINCE, False), ("0010", True)])
def test_an_unmarked_store_is_of_the_version_that_can_have_written_it(
    project: Path, version: str, is_early: bool
):
    store = fill_own(project)
    run_sql(str(store), "DELETE FROM store_identity", f"UPDATE alembic_version SET version_num = '{version}'")

    with pytest.raises(StoreNotAdopted) as refused:
        list_names(project)

    assert ("deepwork 0.1" in refused.value.message) is is_early


def test_an_unmarked_store_is_refused_and_unchanged(project: Path):
    store = fill_own(project)
    run_sql(str(store), "DELETE FROM store_identity")
    before = store.read_bytes()

    with pytest.raises(StoreNotAdopted, match="no mark of this user"):
        list_names(project)

    assert store.read_bytes() == before
    adopt_store(SQLite(store), PERSON)
    assert list_names(project) == ["Ada"]


def test_the_mark_of_another_store_of_ours_is_of_no_use_without_its_key(project: Path, tmp_path: Path):
    """The row moves as a whole: then the tokens and the audit log of this store do not fit its key."""
    store = fill_own(project)
    made = make_app(project, "")
    _, id, secret = make_token(made, "ci")
    made.close()
    other = fill_own(create_repository(tmp_path / "other"))
    with closing(sqlite3.connect(other)) as file:
        row = file.execute("SELECT id, secret, keyed_from, mark FROM store_identity").fetchone()
    with closing(sqlite3.connect(store, isolation_level=None)) as file:
        file.execute("UPDATE store_identity SET id = ?, secret = ?, keyed_from = ?, mark = ?", row)

    app = make_app(project, "")
    try:
        with app.database.reading() as tx:
            token = TokenStore(tx).find(id)
        assert not matches_secret(secret, token)
        assert verify_audit(app).problem is not None
    finally:
        app.close()


def test_a_part_of_another_mark_is_refused(project: Path, tmp_path: Path):
    store, other = fill_own(project), fill_own(create_repository(tmp_path / "other"))
    with closing(sqlite3.connect(other)) as file:
        [mark] = file.execute("SELECT mark FROM store_identity").fetchone()
    run_sql(str(store), f"UPDATE store_identity SET mark = '{mark}'")

    with pytest.raises(StoreNotAdopted, match="not this user's"):
        list_names(project)


@pytest.mark.parametrize(
    "identity",
    [
        "CREATE VIEW store_identity AS SELECT * FROM kept",
        "CREATE VIRTUAL TABLE store_identity USING fts5(id, secret, keyed_from, mark, content='kept')",
        "CREATE TABLE store_identity (id, secret, keyed_from, mark AS (hex(zeroblob(1000))))",
    ],
)
def test_a_mark_that_is_computed_is_not_read(project: Path, identity: str):
    """Reading it could take for ever, and every hook would."""
    store = fill_own(project)
    run_sql(str(store), "ALTER TABLE store_identity RENAME TO kept", identity)

    with SQLite(store).reading() as connection:
        assert read_identity(connection) is None
    with pytest.raises(StoreNotAdopted, match="no mark of this user"):
        list_names(project)


def test_a_lost_key_is_named_with_the_way_out(project: Path, tmp_path: Path):
    with use_home(tmp_path / "home"):
        store = fill_own(project)
        (tmp_path / "home" / ".config" / "deepwork" / "store.key").unlink()

        with pytest.raises(StoreNotAdopted, match=r"~/.config/deepwork/store.key does not exist") as refused:
            list_names(project)
        assert "deepwork db adopt" in refused.value.suggestion
        assert not (tmp_path / "home" / ".config" / "deepwork" / "store.key").exists()

        adopt_store(SQLite(store), PERSON)
        assert list_names(project) == ["Ada"]


def test_a_key_in_the_environment_replaces_the_file(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with use_home(tmp_path / "home"):
        monkeypatch.setenv("DEEPWORK_STORE_KEY", "k" * 40)
        fill_own(project)
        assert not (tmp_path / "home" / ".config").exists()
        assert list_names(project) == ["Ada"]

        monkeypatch.setenv("DEEPWORK_STORE_KEY", "j" * 40)
        with pytest.raises(StoreNotAdopted, match="not this user's"):
            list_names(project)


def test_a_store_that_replaces_ours_under_a_running_server_is_refused(
    project: Path, attack: tuple[Path, str]
):
    store = fill_own(project)
    app = make_app(project, "")
    call_tool(app, "agent_list")
    store.unlink()
    store.write_bytes((attack[0] / ".deepwork" / "deepwork.db").read_bytes())
    try:
        with pytest.raises(StorageError, match="removed or replaced"):
            call_tool(app, "agent_register", name="X", runtime="custom")
        with pytest.raises(StoreNotAdopted):
            call_tool(app, "agent_register", name="X", runtime="custom")
    finally:
        app.close()


def test_a_store_can_be_adopted_again(project: Path):
    store = fill_own(project)
    made = make_app(project, "")
    make_token(made, "ci")
    made.close()

    assert adopt_store(SQLite(store), PERSON).revoked_tokens == 1
    assert adopt_store(SQLite(store), PERSON).revoked_tokens == 0

    app = make_app(project, "")
    try:
        assert verify_audit(app).problem is None
        assert [tool for tool, _ in list_outcomes(app)][-2:] == ["db adopt", "db adopt"]
    finally:
        app.close()


def test_a_new_store_is_marked_from_its_first_transaction(project: Path):
    store = fill_own(project)

    with SQLite(store).reading() as connection:
        assert read_identity(connection) is not None


# What is marked as unverified


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ('{"by":"human:ada"}', '{"by":"unverified:human:ada"}'),
        ('{"by":"\\u0068uman:ada"}', '{"by":"unverified:human:ada"}'),
        ('[{"a":["Human:ada"]}]', '[{"a":["unverified:Human:ada"]}]'),
        ('{"by":"\\u200bhuman:ada"}', '{"by":"unverified:\\u200bhuman:ada"}'),
        ('{"by":"\\uff48uman\\uff1aada"}', '{"by":"unverified:\\uff48uman\\uff1aada"}'),
        ('{"by": "ada"}', '{"by": "ada"}'),
        ('{"by": "humane: ada", "who": "owner"}', '{"by": "humane: ada", "who": "owner"}'),
        ("human:ada", "human:ada"),
        (None, None),
    ],
)
def test_names_of_people_in_json_are_marked(text: Any, marked: Any):
    assert mark_json(text) == marked


def test_every_column_that_names_somebody_is_marked():
    named = {"created_by", "registered_by", "resolved_by", "by_whom", "agent_name", "asked_by", "decided_by"}
    named |= {"waived_by", "closed_by"}
    names_of_senders = {"agents": {"name"}}
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(get_snapshot_path("sqlite").read_text(encoding="utf-8"))
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {
            table: names
            for table in tables
            if (names := {row[1] for row in file.execute(f"PRAGMA table_info({table})")} & named)
        }
    found = {table: names | names_of_senders.get(table, set()) for table, names in found.items()}

    assert {table: set(names) for table, names in NAME_COLUMNS.items()} == found
