"""Any changed byte inside `needs` makes a proof stale, and none outside does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.make import run_git
from deepwork.gates.checks.hidden_files import HiddenRules
from deepwork.gates.checks.input_files import TreeReader
from deepwork.gates.checks.models import Check
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore

CHECK = Check("tests", ("true",), needs=("src/**", "*.toml", "deep/*/x.py"), junit="src/report.xml")
PATHS = [
    "src/a.py", "src/deep/b.py", "src/line\nbreak", "src/report.xml", "a.toml", "deep/a/x.py", "deep/a/b/x.py",
    "docs/a.md", "b.txt", "srcs/a.py", "sub/a.toml",
]  # fmt: skip
CONTENTS = st.sampled_from(
    [b"", b"one\n", b"two\n", b"one\r\n", b"two\r\n", b"\x00\xff", b"$Id$\n", b"$Id: x$\n"]
)
FILES = st.dictionaries(st.sampled_from(PATHS), CONTENTS, min_size=3)
STEPS = st.lists(
    st.tuples(st.sampled_from(PATHS), st.none() | CONTENTS, st.booleans()), min_size=1, max_size=4
)
OLD = 1_700_000_000

RULES = HiddenRules("", (), ())


class Tree:
    """A repository in which git converts line endings, and what a check sees in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.folder.mkdir()
        run_git(self.folder, "init", "-q")
        (self.folder / ".gitattributes").write_text("* text=auto ident\n")
        git = Git(self.folder, environment=build_child_environment())
        self._store = SnapshotStore(git, folder / "snapshots")
        self._reader = TreeReader()

    def write(self, path: str, content: bytes | None, *, is_backdated: bool) -> None:
        place = self.folder / path
        if content is None:
            place.unlink(missing_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        if is_backdated:
            os.utime(place, (OLD, OLD))

    def compute_digest(self) -> str:
        return self._reader.read(self._store, self.folder, RULES).read_inputs(CHECK, "").digest

    def read_needed(self) -> dict[str, bytes]:
        found = {path: self.folder / path for path in PATHS if (self.folder / path).is_file()}
        needed = set(Globs(CHECK.needs).filter(found)) - {CHECK.junit}
        return {path: found[path].read_bytes() for path in needed}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("property"))


@settings(max_examples=20)
@given(files=FILES, steps=STEPS)
def test_the_digest_changes_exactly_if_a_needed_byte_does(
    tree: Tree, files: dict[str, bytes], steps: list[tuple[str, bytes | None, bool]]
):
    for path in PATHS:
        tree.write(path, files.get(path), is_backdated=True)
    before, digest = tree.read_needed(), tree.compute_digest()

    for path, content, is_backdated in steps:
        tree.write(path, content, is_backdated=is_backdated)

    assert (tree.compute_digest() == digest) == (tree.read_needed() == before)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o755),
        lambda path: path.rename(path.with_name("other.py")),
        lambda path: (path.unlink(), path.symlink_to("b.py")),
        lambda path: path.with_name("new.py").touch(),
    ],
    ids=["executable", "renamed", "a-link", "a-new-file"],
)
def test_other_changes_of_a_needed_file_count_too(tmp_path: Path, change: Callable[[Path], object]):
    tree = Tree(tmp_path)
    tree.write("src/a.py", b"one\n", is_backdated=False)
    digest = tree.compute_digest()

    change(tree.folder / "src/a.py")

    assert tree.compute_digest() != digest


def test_large_untracked_files_and_submodules_count_with_their_content(tmp_path: Path):
    tree = Tree(tmp_path)
    large = tree.folder / "src/large.bin"
    tree.write("src/large.bin", b"x" * (6 * 2**20), is_backdated=True)
    nested = tree.folder / "src/nested"
    nested.mkdir()
    run_git(nested, "init", "-q")
    (nested / "a").write_text("one")
    digests = [tree.compute_digest()]

    with large.open("r+b") as file:
        file.write(b"y")
    os.utime(large, (OLD, OLD))
    digests.append(tree.compute_digest())
    (nested / "a").write_text("two")
    digests.append(tree.compute_digest())

    assert len(set(digests)) == 3
