"""An agent with a shell tries to get rid of a passphrase: by adopting the store as another user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quick
from access.other_users import run_git
from application import make_app
from approvals.person import PASSPHRASE
from cli.run import CommandResult, run_deepwork
from deepwork.gates.approvals.credentials import hash_passphrase
from deepwork.kernel.user_settings import compute_digest
from store_admin.stores import read_all_rows, run_sql

KEY = "k" * 40


def type_passphrase(
    project: Path, *words: str, environment: dict[str, str] | None = None, lines: str
) -> CommandResult:
    done = subprocess.run(
        [*quick.build_command(), *words, "--passphrase-stdin"], cwd=project, input=lines, text=True,
        capture_output=True, check=False, timeout=100, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose plan has a task that a person has to approve; a passphrase is enrolled in its store."""
    folder = tmp_path_factory.mktemp("victim")
    project, home = folder / "project", folder / "home"
    (project / ".deepwork").mkdir(parents=True)
    home.mkdir()
    run_git(project, "init", "-q")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        app = make_app(project, "")
        from approvals.person import Person
        from plans.world import Plan, World

        world = World(app, None)  # type: ignore[arg-type]
        id = world.create_workflow()
        tasks = [{"name": "gated", "approval": "after"}, {"name": "later"}]
        world.call("workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})
        assert Plan(world, id).list_offered()
        Person(app).act("enroll_passphrase", verifier=hash_passphrase(PASSPHRASE))
        app.close()
    return project


@pytest.fixture
def project(victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "project"
    shutil.copytree(victim, copy)
    shutil.copytree(victim.parent / "home", tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DEEPWORK_TESTS_ACCOUNT_HOME", str(tmp_path / "home"))
    return copy


ELSEWHERE: dict[str, Callable[[Path], dict[str, str]]] = {
    "HOME": lambda folder: {"HOME": str(folder)},
    "DEEPWORK_STORE_KEY": lambda folder: {"DEEPWORK_STORE_KEY": KEY},
    "both and XDG_CONFIG_HOME": lambda folder: {
        "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "x"), "DEEPWORK_STORE_KEY": KEY,
    },
}  # fmt: skip


@pytest.mark.parametrize("way", ELSEWHERE)
def test_a_store_with_a_passphrase_is_not_adopted_by_naming_another_home(
    project: Path, tmp_path: Path, way: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = ELSEWHERE[way](elsewhere)
    store = project / ".deepwork" / "deepwork.db"
    before = store.read_bytes()

    refused = run_deepwork(project, "db", "adopt", "--yes", "--json", environment=environment)
    wrong = type_passphrase(
        project, "db", "adopt", "--yes", environment=environment, lines="not the passphrase\n"
    )

    assert (refused.code, wrong.code) == (1, 1)
    assert "UNAUTHORIZED" in refused.err
    assert store.read_bytes() == before


def test_a_copy_with_a_passphrase_is_not_adopted_either(project: Path, tmp_path: Path) -> None:
    elsewhere = {"HOME": str(tmp_path / "elsewhere")}
    copy = tmp_path / "copy.db"
    run_deepwork(project, "db", "backup", str(copy))

    for words in (
        ["db", "adopt", "--yes", "--db", str(copy)],
        ["db", "restore", str(copy), "--adopt", "--db", str(tmp_path / "new.db")],
        ["db", "restore", str(copy), "--adopt", "--replace"],
    ):
        assert run_deepwork(project, *words, "--json", environment=elsewhere).code == 1, words

    assert not (tmp_path / "new.db").exists()


def test_a_store_that_git_tracks_is_not_replaced_without_the_passphrase(
    project: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older.db"
    app = make_app(tmp_path, str(older))
    app.database.prepare()
    app.close()
    run_git(project, "add", "-f", ".deepwork/deepwork.db")

    refused = run_deepwork(project, "db", "restore", str(older), "--replace", "--json")

    assert refused.code == 1
    assert "UNAUTHORIZED" in refused.err


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_a_new_store_demands_what_the_person_enrolled_whatever_the_environment_says(
    project: Path, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "new" / ".deepwork").mkdir(parents=True)
    (tmp_path / "new" / ".deepwork" / "config.yml").write_text("port: 4321\n")
    (tmp_path / "elsewhere").mkdir()
    environment = {variable: str(tmp_path / "elsewhere")}

    refused = run_deepwork(tmp_path / "new", "trust", "--yes", "--json", environment=environment)

    assert refused.code == 1
    assert "UNAUTHORIZED" in refused.err


def test_its_person_adopts_it_with_the_passphrase_and_gates_that_were_passed_are_open_again(
    project: Path, tmp_path: Path
) -> None:
    """As if somebody got it adopted elsewhere after all: the stolen store says that its gated task is done."""
    elsewhere = {"HOME": str(tmp_path / "elsewhere")}
    store = str(project / ".deepwork" / "deepwork.db")
    stolen = type_passphrase(
        project, "db", "adopt", "--yes", "--json", environment=elsewhere, lines=f"{PASSPHRASE}\n"
    )
    run_sql(
        store,
        "UPDATE plan_tasks SET status = 'completed', outcome = 'It is done.', finished_at = updated_at + 10000000",
    )
    run_sql(store, "UPDATE plans SET status = 'completed'")

    back = run_deepwork(project, "db", "adopt", "--yes", "--json")
    facts: dict[str, Any] = run_deepwork(project, "doctor", "--json").json["facts"]

    assert (stolen.code, stolen.json["reopened_tasks"]) == (0, 0)
    assert (back.code, back.json["reopened_tasks"]) == (0, 1)
    rows = read_all_rows(store)
    assert {row["name"]: row["status"] for row in rows["plan_tasks"]} == {
        "gated": "pending",
        "later": "completed",
    }
    assert [row["status"] for row in rows["plans"]] == ["in_progress"]
    assert [row["tool"] for row in sorted(rows["audit"], key=lambda row: row["seq"])][-2:] == ["db adopt"] * 2
    assert "1 tasks" in facts["last db adopt"]
    assert run_deepwork(project, "audit", "verify", "--json").json["intact"]
    [gated] = [row["id"] for row in rows["plan_tasks"] if row["name"] == "gated"]
    refused = run_deepwork(project, "tasks", "skip", gated, "--as-person", "--json")
    assert "UNAUTHORIZED" in refused.err  # the passphrase is that of the person again


def test_a_restore_is_in_the_log(project: Path, tmp_path: Path) -> None:
    run_deepwork(project, "db", "backup", str(tmp_path / "copy.db"))

    done = type_passphrase(
        project, "db", "restore", str(tmp_path / "copy.db"), "--replace", lines=f"{PASSPHRASE}\n"
    )

    assert done.code == 0, done.err
    rows = read_all_rows(str(project / ".deepwork" / "deepwork.db"))["audit"]
    assert max(rows, key=lambda row: row["seq"])["tool"] == "db restore"
    assert run_deepwork(project, "audit", "verify", "--json").json["intact"]


def test_a_folder_that_a_variable_names_brings_no_passphrase_along(project: Path, tmp_path: Path) -> None:
    (tmp_path / "new" / ".deepwork").mkdir(parents=True)
    (tmp_path / "new" / ".deepwork" / "config.yml").write_text("port: 4321\n")
    folder = tmp_path / "elsewhere" / "deepwork"
    folder.mkdir(mode=0o700, parents=True)
    own = {"id": "pc_zzzzzzzzzzzz", "method": "passphrase", "name": "x", "created_at": 9 * 10**12}
    own["data"] = hash_passphrase("a passphrase of an agent")
    (folder / "credentials.json").write_text(json.dumps({"version": 1, "credentials": [own]}))
    (folder / "credentials.json").chmod(0o600)

    refused = type_passphrase(
        tmp_path / "new", "trust", environment={"XDG_CONFIG_HOME": str(folder.parent)},
        lines="a passphrase of an agent\n",
    )  # fmt: skip
    known = type_passphrase(tmp_path / "new", "trust", lines=f"{PASSPHRASE}\n")

    assert (refused.code, known.code) == (1, 0)


def test_a_store_whose_version_was_set_back_is_not_sealed_again(project: Path, tmp_path: Path) -> None:
    store = project / ".deepwork" / "deepwork.db"
    for version, change in (("0018", "DROP TABLE seals"), ("0019", "DELETE FROM seals")):
        copy = tmp_path / f"{version}.db"
        shutil.copy(store, copy)
        forged = ("DELETE FROM person_credentials", "DROP TABLE sealed_lists")
        later = (
            "DROP INDEX ix_audit_approvals", "ALTER TABLE runner_hosts DROP COLUMN seen_at",
            "DROP INDEX spending_by_run", "ALTER TABLE spending DROP COLUMN run_id",
        )  # fmt: skip
        run_sql(str(copy), change, *forged, *later, f"UPDATE alembic_version SET version_num = '{version}'")

        refused = run_deepwork(project, "approvals", "proof", "--json", "--db", str(copy))

        assert refused.code == 1
        assert "STORAGE_ERROR" in refused.err
        assert "set back" in refused.err  # and not an upgrade that failed


def test_a_folder_that_a_variable_names_brings_no_trust_along(project: Path, tmp_path: Path) -> None:
    config, trusted = project / ".deepwork" / "config.yml", tmp_path / "home" / ".config/deepwork/trust.json"
    config.write_text("port: 4321\n")
    assert type_passphrase(project, "trust", lines=f"{PASSPHRASE}\n").code == 0
    config.write_text("port: 5555\n")
    folder = tmp_path / "elsewhere" / "deepwork"
    folder.mkdir(mode=0o700, parents=True)
    forged = trusted.read_text().replace(compute_digest(4321), compute_digest(5555))
    (folder / "trust.json").write_text(forged)
    (folder / "trust.json").chmod(0o600)

    status = run_deepwork(
        project, "status", "--json", environment={"XDG_CONFIG_HOME": str(folder.parent)}
    ).json

    assert forged != trusted.read_text()
    assert status["untrusted_settings"] == ["port"]
