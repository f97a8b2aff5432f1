"""`deepwork db adopt`, and what a person can do with a store that is not adopted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from access.other_users import create_repository, fill_store, run_git, use_home
from cli.run import run_deepwork
from store_admin.stores import run_sql


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    with use_home(folder / "home"):
        fill_store(create_repository(folder / "project"))
    store = folder / "project" / ".deepwork" / "deepwork.db"
    run_sql(str(store), "DELETE FROM person_credentials")
    return store


@pytest.fixture
def project(theirs: Path, tmp_path: Path) -> Path:
    (tmp_path / ".deepwork").mkdir()
    shutil.copy(theirs, tmp_path / ".deepwork" / "deepwork.db")
    return tmp_path


def test_a_person_can_look_at_it_with_a_warning(project: Path):
    before = (project / ".deepwork" / "deepwork.db").read_bytes()

    for words in (
        ["agents", "list"],
        ["status"],
        ["audit"],
        ["tokens", "list"],
        ["events", "tail", "--no-follow"],
    ):
        ran = run_deepwork(project, *words, "--json")
        assert ran.code == 0, ran.err
        assert "not this user's" in ran.err
        assert len(ran.err.splitlines()) == 1
        assert "deepwork db adopt" in ran.err

    assert (project / ".deepwork" / "deepwork.db").read_bytes() == before


def test_what_people_did_is_shown_as_unverified(project: Path):
    shown = run_deepwork(project, "events", "tail", "--no-follow", "--since", "0", "--json").out

    assert '"unverified:human:owner"' in shown
    assert '"human:owner"' not in shown


def test_a_person_cannot_change_it(project: Path):
    before = (project / ".deepwork" / "deepwork.db").read_bytes()
    [agent] = run_deepwork(project, "agents", "list", "--json").json["agents"]

    for words in (
        ["agents", "register", "Ada", "custom"],
        ["agents", "heartbeat", agent["id"]],
        ["tokens", "create", "ci", "--scope", "work"],
        ["tokens", "revoke", "evil"],
    ):
        ran = run_deepwork(project, *words, "--json")
        assert ran.code == 1, words
        assert "STORE_NOT_ADOPTED" in ran.err

    assert (project / ".deepwork" / "deepwork.db").read_bytes() == before


def test_doctor_names_it_with_the_next_step(project: Path):
    ran = run_deepwork(project, "doctor", "--json")

    assert ran.code == 1
    assert any(
        "not this user's" in problem and "deepwork db adopt" in problem for problem in ran.json["problems"]
    )


def test_adopt_asks_first(project: Path):
    ran = run_deepwork(project, "db", "adopt")
    assert ran.code == 2
    assert "--yes" in ran.err

    assert "not this user's" in run_deepwork(project, "agents", "list").err


def test_after_the_adoption_everything_works(project: Path):
    done = run_deepwork(project, "db", "adopt", "--yes", "--json")

    assert done.code == 0, done.err
    assert done.json["revoked_tokens"] == 1
    assert done.json["marked_unverified"] > 0
    assert Path(done.json["kept"]).is_file()
    assert run_deepwork(project, "agents", "register", "Ada", "custom").code == 0
    listed = run_deepwork(project, "agents", "list", "--json")
    assert (listed.err, listed.json["total"]) == ("", 2)
    assert run_deepwork(project, "audit", "verify", "--json").json["intact"]


def test_adopt_needs_a_store(tmp_path: Path):
    ran = run_deepwork(tmp_path, "db", "adopt", "--yes")

    assert ran.code == 1
    assert "There is no store" in ran.err
    assert not (tmp_path / ".deepwork").exists()


def test_doctor_names_secrets_that_others_know(tmp_path: Path):
    project, home = create_repository(tmp_path / "project"), tmp_path / "home"
    token = project / ".deepwork" / "token"
    with use_home(home):
        assert run_deepwork(project, "agents", "register", "Ada", "custom").code == 0
        token.write_text("t" * 40)
        token.chmod(0o644)
        key = home / ".config" / "deepwork" / "store.key"
        key.chmod(0o644)
        problems = run_deepwork(project, "doctor", "--json").json["problems"]
        assert any("store.key, is open to other users" in each and "chmod 600" in each for each in problems)
        assert any("Other users can read .deepwork/token" in each for each in problems)

        key.chmod(0o600)
        run_git(project, "add", "-f", ".deepwork/token", ".deepwork/deepwork.db")
        problems = run_deepwork(project, "doctor", "--json").json["problems"]

    assert any("git tracks .deepwork/token" in each for each in problems)
    assert any("git tracks .deepwork/deepwork.db" in each for each in problems)
    assert not any("Other users" in each or "store.key" in each for each in problems)
