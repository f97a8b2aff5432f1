"""After any operations, the changes of a project match a model of three dictionaries."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepwork.kernel.git.changes import ChangedFiles
from git.changes_project import Project, create_project

# Names that are also folders of other names, so that each may replace the other.
NAMES = [
    "plain.py",
    "sp ace\n.py",
    'é"日.log',
    os.fsdecode(b"\xff.py"),
    "-dash",
    "folder",
    "folder/inner.py",
    "folder/deep/:(top)*.py",
    "other/inner.py",
    "other/deep",
]
IGNORED = {
    "*.log": lambda name: name.endswith(".log"),
    "/folder": lambda name: name.split("/")[0] == "folder",
    "other/": lambda name: name.startswith("other/"),
}

Content = tuple[str, str]  # the kind of file, and its content
Files = dict[str, Content]

CONTENTS: list[Content] = [
    ("file", ""),
    ("file", "one"),
    ("file", "two"),  # the same length: only the content differs
    ("program", "one"),
    ("link", "other"),  # which would lead from folder/inner.py to other/inner.py
    ("link", "one"),
]


@dataclass
class Model:
    """A project, and its expected files: on disk, in the index, in the last commit and at the branch point."""

    project: Project
    tree: Files = field(default_factory=dict)
    index: Files = field(default_factory=dict)
    head: Files | None = None
    branched: bool = False
    main: Files | None = None
    ignored: set[str] = field(default_factory=set)

    def write(self, name: str, content: Content) -> None:
        self._clear_the_way(name)
        path = self.project.root / name
        kind, text = content
        if kind == "link":
            path.symlink_to(text)
        else:
            path.write_text(text)
            path.chmod(0o755 if kind == "program" else 0o644)
        self.tree[name] = content

    def delete(self, name: str) -> None:
        if self.tree.pop(name, None):
            (self.project.root / name).unlink()

    def rename(self, name: str, new_name: str) -> None:
        if name in self.tree and not exclude_each_other(name, new_name):
            self._clear_the_way(new_name)
            (self.project.root / name).rename(self.project.root / new_name)
            self.tree[new_name] = self.tree.pop(name)

    def stage(self, name: str) -> None:
        flags = ["--add", "--replace"] if name in self.tree else ["--force-remove"]
        self.project.git("update-index", *flags, "-z", "--stdin", input=os.fsencode(f"{name}\0"))
        if name in self.tree:
            others = {each for each in self.index if not exclude_each_other(each, name)}
            self.index = {each: self.index[each] for each in others} | {name: self.tree[name]}
        else:
            self.index.pop(name, None)

    def commit(self) -> None:
        self.project.git("commit", "-q", "--allow-empty", "-m", "work")
        self.head = dict(self.index)
        if not self.branched:
            self.main = self.head

    def branch(self) -> None:
        if not self.branched:
            self.project.git("switch", "-q", "-c", "feature")
            self.branched = True

    def move_main_on(self) -> None:
        """Commit to the base as others would, which is not our change."""
        if self.branched and self.main is not None:
            commit = self.project.git("commit-tree", "HEAD^{tree}", "-p", "main", "-m", "theirs")
            self.project.git("update-ref", "refs/heads/main", commit)

    def ignore(self, pattern: str) -> None:
        self.ignored ^= {pattern}
        (self.project.root / ".git" / "info").mkdir(exist_ok=True)
        (self.project.root / ".git" / "info" / "exclude").write_text("\n".join(self.ignored))

    def _clear_the_way(self, name: str) -> None:
        for each in [each for each in self.tree if exclude_each_other(each, name)]:
            self.delete(each)
        path = self.project.root / name
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)

    # --- expected results

    def base(self) -> str | None:
        if self.head is None:
            return None
        return "HEAD" if self.main is None else "main"

    def compared_with(self) -> Files:
        return (self.head if self.main is None else self.main) or {}

    def untracked(self) -> set[str]:
        new = self.tree.keys() - self.index.keys()
        return {name for name in new if not any(IGNORED[pattern](name) for pattern in self.ignored)}

    def listed(self) -> set[str]:
        return (self.tree.keys() & self.index.keys()) | self.untracked()

    def changed(self) -> set[str]:
        before = self.compared_with()
        same = {
            name
            for name in self.index.keys() & self.tree.keys()
            if self.index[name] == self.tree[name] == before.get(name)
        }
        return self.listed() - same


def exclude_each_other(one: str, other: str) -> bool:
    """Return whether a folder cannot contain both: they are equal, or one would be inside the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


NAME = st.sampled_from(NAMES)
ACTIONS = st.one_of(
    st.tuples(st.just("write"), NAME, st.sampled_from(CONTENTS)),
    st.tuples(st.just("write"), NAME, st.sampled_from(CONTENTS)),
    st.tuples(st.just("stage"), NAME),
    st.tuples(st.just("stage"), NAME),
    st.tuples(st.just("delete"), NAME),
    st.tuples(st.just("rename"), NAME, NAME),
    st.tuples(st.just("ignore"), st.sampled_from(sorted(IGNORED))),
    st.tuples(st.just("commit")),
    st.tuples(st.just("branch")),
    st.tuples(st.just("move_main_on")),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("template") / "project").root


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    already=st.dictionaries(NAME, st.sampled_from(CONTENTS), max_size=6),
    actions=st.lists(ACTIONS, min_size=3, max_size=15),
)
def test_changes_match_a_model_of_three_dictionaries(
    template: Path, tmp_path_factory: pytest.TempPathFactory, already: Files, actions: list[list[Any]]
) -> None:
    root = tmp_path_factory.mktemp("model") / "project"
    shutil.copytree(template, root)
    model = Model(Project(root))
    commit_all(model, already)

    for action, *arguments in actions:
        getattr(model, action)(*arguments)

    check(model, model.project.changes())
    check_below(model, "other")


def commit_all(model: Model, files: Files) -> None:
    """Commit the initial files; without files there is no commit."""
    for name, content in files.items():
        model.write(name, content)
    if files:
        model.project.git("add", "-A")
        model.index = dict(model.tree)
        model.commit()


def check(model: Model, changes: ChangedFiles) -> None:
    assert changes.base == model.base()
    assert changes.listing.files == tuple(sorted(model.listed()))
    assert changes.listing.untracked == model.untracked()
    assert changes.files == tuple(sorted(model.changed()))
    assert model.project.listing() == changes.listing


def check_below(model: Model, folder: str) -> None:
    """Check the same for a project that is only this folder of the repository."""
    root = model.project.root / folder
    if root.is_dir() and not root.is_symlink():
        changes = Project(root).changes()
        assert changes.files == tuple(sorted(filter_inside(folder, model.changed())))
        assert changes.listing.files == tuple(sorted(filter_inside(folder, model.listed())))


def filter_inside(folder: str, names: set[str]) -> set[str]:
    return {name.removeprefix(f"{folder}/") for name in names if name.startswith(f"{folder}/")}
