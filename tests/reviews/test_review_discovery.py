"""Files of rules are found wherever they are, at once when they are new, and never through a link."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.git.folders import bare_folders
from deepwork.reviews.discovery import RuleFinder, project_files, walked
from reviews.make import Reviewed, a_rule, reviewed

Make = Callable[[Path], Reviewed]


def plain(root: Path) -> Reviewed:
    root.mkdir()
    return Reviewed(root)


@pytest.fixture(params=["git", "no repository"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Reviewed:
    make: Make = reviewed if request.param == "git" else plain
    return make(tmp_path / "project")


def settle() -> None:
    """Wait until the clock of the file system can tell a change from none."""
    time.sleep(0.03)


def warm(project: Reviewed) -> RuleFinder:
    """A finder that has looked, and kept what it saw."""
    settle()
    finder = RuleFinder(project.asked)
    finder.files()
    assert finder._last is not None
    return finder


def test_every_file_of_that_exact_name_is_found(project: Reviewed):
    project.write(
        ".deepreview", "src/.deepreview", "src/x.deepreview", "src/.deepreview.yml", "a/b/.deepreview"
    )

    assert set(RuleFinder(project.asked).files()) == {".deepreview", "src/.deepreview", "a/b/.deepreview"}


@pytest.mark.parametrize("links", [1, 2])
def test_w20_no_walk_goes_through_a_link(project: Reviewed, links: int):
    project.write(".deepreview", "src/.deepreview")
    for number in range(links):
        (project.root / f"loop{number}").symlink_to(".")
        (project.root / f"src/up{number}").symlink_to("..")

    assert set(RuleFinder(project.asked).files()) == {".deepreview", "src/.deepreview"}


def test_ignored_trees_are_neither_looked_through_nor_watched(tmp_path: Path):
    project = reviewed(tmp_path / "project")
    project.write(".gitignore", content="vendor/\n")
    project.write(".deepreview", "vendor/.deepreview", *(f"vendor/{n}/{n}/x" for n in range(50)))

    look = RuleFinder(project.asked)._look()

    assert look.files == (".deepreview",)
    assert not [folder for folder in look.folders if "vendor" in folder]


@pytest.mark.parametrize(
    "folder", ["node_modules", ".venv", "__pycache__", ".tox", "x.egg-info", ".git", ".deepwork"]
)
def test_without_git_folders_of_tools_are_left_out(tmp_path: Path, folder: str):
    project = plain(tmp_path / "project")
    project.write(".deepreview", f"src/{folder}/.deepreview", f"{folder}/deep/.deepreview")

    assert list(walked(project.root)) == [".deepreview"]


def test_an_unchanged_project_is_not_looked_through_again(project: Reviewed, monkeypatch: pytest.MonkeyPatch):
    project.write(".deepreview", "src/a.py")
    finder = warm(project)
    now = finder._last.began  # type: ignore[union-attr]
    monkeypatch.setattr(time, "time_ns", lambda: now)  # a look is relied on for some seconds only
    monkeypatch.setattr(finder, "_look", lambda: pytest.fail("it looked again"))

    assert finder.files() == (".deepreview",)


def test_a_look_is_not_relied_on_for_long(project: Reviewed, monkeypatch: pytest.MonkeyPatch):
    finder = warm(project)
    (project.root / ".git/info").mkdir(parents=True, exist_ok=True)
    later = time.time_ns() + 11_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)

    assert not finder._last.holds()  # type: ignore[union-attr]


def test_a_new_file_of_rules_is_noticed_at_once(project: Reviewed):
    project.write("src/a.py", "src/deep/b.py")
    (project.root / "empty/inner").mkdir(parents=True)
    (project.root / "src/also-empty").mkdir()

    for folder in ("", "src/", "src/deep/", "empty/", "empty/inner/", "src/also-empty/"):
        finder = warm(project)
        project.write(f"{folder}.deepreview")
        assert f"{folder}.deepreview" in finder.files(), folder


def test_a_file_of_rules_in_a_new_folder_is_noticed_at_once(project: Reviewed):
    finder = warm(project)
    (project.root / "new").mkdir()
    assert finder.files() == ()
    settle()
    finder.files()
    project.write("new/.deepreview")

    assert finder.files() == ("new/.deepreview",)


def test_a_file_of_rules_that_is_gone_is_noticed_at_once(project: Reviewed):
    project.write(".deepreview", "src/.deepreview")
    finder = warm(project)
    project.remove("src/.deepreview")

    assert finder.files() == (".deepreview",)


def test_what_is_ignored_from_now_on_is_noticed_at_once(tmp_path: Path):
    project = reviewed(tmp_path / "project")
    project.write("src/.gitignore", content="nothing\n")
    project.write("src/gen/.deepreview")
    finder = warm(project)
    assert finder.files() == ("src/gen/.deepreview",)
    project.write("src/.gitignore", content="gen\n")

    assert finder.files() == ()
    settle()
    finder.files()
    project.write("src/.gitignore", content="nothing\n")
    assert finder.files() == ("src/gen/.deepreview",)


def test_changes_right_after_a_look_are_noticed(project: Reviewed):
    finder = RuleFinder(project.asked)

    for _ in range(5):
        assert finder.files() == ()
        project.write(".deepreview")
        assert finder.files() == (".deepreview",)
        project.remove(".deepreview")


def test_the_files_of_a_project_are_those_that_git_would_keep(tmp_path: Path):
    project = reviewed(tmp_path / "project", rule=a_rule())
    project.write(".gitignore", content="*.log\n")
    project.write("new.py", "x.log")

    assert list(project_files(project.asked)) == [".deepreview", ".gitignore", "new.py"]


def test_a_folder_with_nothing_but_folders_is_watched(tmp_path: Path):
    project = reviewed(tmp_path / "project")
    (project.root / "a/b/c").mkdir(parents=True)

    assert set(bare_folders(project.asked)) == {"a", "a/b", "a/b/c"}
