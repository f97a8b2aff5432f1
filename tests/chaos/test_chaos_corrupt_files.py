"""A damaged file is reported and left in place: no crash, no hang, no wrong answer, no new store."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, make_app
from chaos import corruption
from chaos.workers import Worker
from deepwork.edge.server.application import Application

AGENTS = 40
TIMES = 3


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of about a hundred pages, fully checkpointed into its file."""
    path = tmp_path_factory.mktemp("sound") / "deepwork.db"
    app = make_app(path.parent, str(path), lease_seconds=86_400)
    agents = [register(app, number) for number in range(AGENTS)]
    for number in range(3 * AGENTS):
        call_tool(app, "message_send", sender_id=agents[0], recipient_id=agents[number % AGENTS],
            message_type="query", body={"number": number, "text": "x" * 700})  # fmt: skip
    app.close()
    assert not path.with_name("deepwork.db-wal").exists()
    return path


@pytest.fixture
def right(sound: Path, tmp_path: Path, worker: Worker) -> list[Any]:
    """The answers from an intact file."""
    answers: list[Any] = worker.do("look", location=str(copy_store(sound, tmp_path / "right"))).answer
    assert all("answer" in each for each in answers)
    return answers


@pytest.mark.parametrize("how", corruption.SEEN_BY_SQLITE, ids=lambda how: how.__name__)
def test_a_damaged_file_gives_right_answers_or_an_error_that_names_it(
    how: corruption.Damage, sound: Path, right: list[Any], tmp_path: Path, worker: Worker, seed: int
):
    for number in range(TIMES):
        path = copy_store(sound, tmp_path / f"{how.__name__}-{number}")
        corruption.spoil(path, how, random.Random(seed + number))
        before = path.read_bytes()

        outcome = worker.do("look", location=str(path))

        assert outcome.is_well, f"{how.__name__} {number}: {outcome}"
        assert [said for said in zip(outcome.answer, right, strict=True) if not is_honest(*said)] == []
        assert path.exists()
        if all("error" in said for said in outcome.answer):
            assert path.read_bytes() == before


@pytest.mark.parametrize("how", corruption.UNSEEN, ids=lambda how: how.__name__)
def test_undetectable_damage_gives_answers_or_deepwork_errors(
    how: corruption.Damage, sound: Path, tmp_path: Path, worker: Worker, seed: int
):
    for number in range(TIMES):
        path = copy_store(sound, tmp_path / f"{how.__name__}-{number}")
        corruption.spoil(path, how, random.Random(seed + number))

        outcome = worker.do("look", location=str(path))

        assert outcome.is_well, f"{how.__name__} {number}: {outcome}"
        assert [said for said in outcome.answer if "fault" in said] == []
        assert path.exists()


def test_an_invalid_stored_value_is_an_error_that_names_the_file(sound: Path, tmp_path: Path, worker: Worker):
    path = copy_store(sound, tmp_path / "value")
    file = path.read_bytes()
    assert file.count(b'{"number": 7,')
    path.write_bytes(file.replace(b'{"number": 7,', b'{"number"? 7,'))

    outcome = worker.do("look", location=str(path))

    assert [said for said in outcome.answer if "fault" in said] == []
    errors = [said["error"] for said in outcome.answer if "error" in said]
    assert errors
    assert all(is_named(error) for error in errors)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_garbage_next_to_an_intact_file_changes_nothing(
    suffix: str, sound: Path, right: list[Any], tmp_path: Path, worker: Worker, seed: int
):
    for number in range(TIMES):
        path = copy_store(sound, tmp_path / f"beside-{number}")
        garbage = random.Random(seed + number).randbytes(random.Random(number).randrange(1, 100_000))
        path.with_name(path.name + suffix).write_bytes(garbage)

        outcome = worker.do("look", location=str(path))

        assert outcome.is_well, outcome
        assert [said for said in zip(outcome.answer, right, strict=True) if not is_honest(*said)] == []


def register(app: Application, number: int) -> str:
    id: str = call_tool(
        app, "agent_register", name=f"agent {number}", runtime="custom", capabilities=["python"],
        metadata={"number": number, "notes": "y" * 300},
    )["id"]  # fmt: skip
    return id


def copy_store(sound: Path, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(sound, folder))


def is_honest(said: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether the outcome is the right answer, or an error that names the file."""
    return is_same(said, right) if "answer" in said else "error" in said and is_named(said["error"])


def is_named(error: dict[str, Any]) -> bool:
    return error["code"] == "STORAGE_ERROR" and "deepwork.db" in error["message"]


def is_same(said: dict[str, Any], right: dict[str, Any]) -> bool:
    return json.dumps(said, sort_keys=True) == json.dumps(right, sort_keys=True)
