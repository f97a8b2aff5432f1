from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from deepwork.kernel.errors import StorageError
from deepwork.kernel.user_settings import Kind, TrustStore, compute_digest

NOW = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "config" / "deepwork"


def pin(folder: Path, project: str, **definitions: object) -> None:
    TrustStore(folder).pin(Path(project), Kind.CONFIG, definitions, proof="token", trusted_at=NOW)


def test_what_is_pinned_is_found_until_it_is_revoked(folder: Path):
    store = TrustStore(folder)
    pin(folder, "/a", database="x.db")
    pin(folder, "/b", port=1)

    assert store.find_digests(Path("/a"), Kind.CONFIG) == {"database": compute_digest("x.db")}
    assert store.find_digests(Path("/c"), Kind.CONFIG) == {}

    store.revoke(Path("/a"))

    assert store.find_digests(Path("/a"), Kind.CONFIG) == {}
    assert set(store.load()) == {"/b"}


def test_a_second_trust_replaces_the_first(folder: Path):
    pin(folder, "/a", database="x.db", port=1)
    pin(folder, "/a", port=2)

    assert TrustStore(folder).find_digests(Path("/a"), Kind.CONFIG) == {"port": compute_digest(2)}


def test_the_other_kinds_of_a_project_stay_pinned(folder: Path):
    pin(folder, "/a", port=1)
    path = folder / "trust.json"
    data = json.loads(path.read_text())
    data["projects"]["/a"]["digests"]["checks"] = {"test": "0"}
    path.write_text(json.dumps(data))

    pin(folder, "/a", port=2)

    assert TrustStore(folder).load()["/a"].digests["checks"] == {"test": "0"}


def test_only_the_user_can_read_the_file_and_its_folder(folder: Path):
    folder.mkdir(parents=True, mode=0o755)
    pin(folder, "/a", port=1)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "trust.json").stat().st_mode & 0o777 == 0o600


def test_writers_wait_for_each_other(folder: Path):
    threads = [threading.Thread(target=pin, args=(folder, f"/{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(TrustStore(folder).load()) == {f"/{number}" for number in range(8)}


def make_link_of_the_file(folder: Path) -> None:
    (folder / "trust.json").rename(folder.parent / "elsewhere.json")
    (folder / "trust.json").symlink_to(folder.parent / "elsewhere.json")


def make_link_of_the_folder(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def let_others_write_the_file(folder: Path) -> None:
    (folder / "trust.json").chmod(0o666)


def let_others_write_the_folder(folder: Path) -> None:
    folder.chmod(0o777)


def damage_the_file(folder: Path) -> None:
    (folder / "trust.json").write_text('{"projects": [1]}')


@pytest.mark.parametrize(
    "spoil",
    [
        make_link_of_the_file,
        make_link_of_the_folder,
        let_others_write_the_file,
        let_others_write_the_folder,
        damage_the_file,
    ],
)
def test_a_file_that_cannot_be_relied_on_trusts_nothing(folder: Path, spoil):
    pin(folder, "/a", port=1)
    spoil(folder)

    assert TrustStore(folder).find_digests(Path("/a"), Kind.CONFIG) == {}
    with pytest.raises(StorageError, match=r"trust\.json|deepwork"):
        TrustStore(folder).load()


def test_a_pipe_instead_of_the_file_does_not_block(folder: Path):
    folder.mkdir(parents=True, mode=0o700)
    os.mkfifo(folder / "trust.json")

    assert TrustStore(folder).find_digests(Path("/a"), Kind.CONFIG) == {}
