"""Asks git by rules that are not those of the repository, such as what it ignores or converts.

Git converts line endings and encodings by attributes. Those of the tree are part of every commit. Others
are not: `info/attributes`, `core.attributesFile`, the user's own file, a `.gitattributes` that is ignored.
With these, a commit has other bytes than the files that were checked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import GitError
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.exact_files import find_mode, hash_files
from deepwork.kernel.git.refs import compute_hash, find_algorithm
from deepwork.kernel.git.snapshot_types import LINK_MODE, TreeFile
from deepwork.kernel.records import dataclass

_HEAD = b"ref: refs/heads/none\n"
_SHA256_CONFIG = b"[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_Mark = tuple[int, int, bytes | None]
"""The inode, the change time and the content of what is at a path; no content: a folder."""


@dataclass
class EmptyRepository:
    """Its working tree, which is empty at first, and the environment in which git works there."""

    folder: Path
    tree: Path
    environment: dict[str, str]
    made: dict[str, bytes] = field(default_factory=dict)
    """What was written here, and nothing else may be."""
    renewed: set[str] = field(default_factory=set)
    """Those whose times git may set: it does that instead of writing an object that is there."""
    _sealed: dict[str, _Mark] | None = None

    def write(self, path: str, content: bytes) -> None:
        """Write a file, relative to the folder."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(content)
        self.made[path] = content

    def link(self, path: str, target: Path) -> None:
        """Make a link to a file elsewhere."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).symlink_to(target)
        self.made[path] = os.fsencode(target)

    def seal(self) -> None:
        """Note how everything is, before git is asked."""
        self._sealed = self._read_marks()

    def require_untouched(self) -> None:
        """Raise GitError if somebody changed something while git was asked: the answer may be theirs."""
        marks = self._read_marks()
        contents = {path: content for path, (_, _, content) in marks.items() if content is not None}
        if self._without_times(marks) != self._without_times(self._sealed or {}) or contents != self.made:
            raise GitError("Somebody changed temporary files of deepwork while git used them.")

    def _read_marks(self) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        for place, folders, files in os.walk(self.folder):
            for path in (place, *(f"{place}/{name}" for name in (*folders, *files))):
                status = os.lstat(path)
                found[os.path.relpath(path, self.folder)] = (status.st_ino, status.st_ctime_ns, _read(path))
        return found

    def _without_times(self, marks: dict[str, _Mark]) -> dict[str, _Mark]:
        return {
            path: (inode, 0 if path in self.renewed else changed, content)
            for path, (inode, changed, content) in marks.items()
        }


@contextmanager
def open_empty_repository(
    *, algorithm: str = "sha1", work_tree: Path | None = None, excludes: bytes = b""
) -> Iterator[EmptyRepository]:
    """Yield a temporary repository, optionally for another working tree and with these ignore rules."""
    with (
        TemporaryDirectory(prefix="deepwork-git-") as folder,
        TemporaryDirectory(prefix="deepwork-index-") as index,
    ):
        place = Path(folder)
        for name in ("git/objects", "git/refs", "tree"):
            (place / name).mkdir(parents=True)
        environment = {
            "GIT_DIR": f"{place}/git",
            "GIT_WORK_TREE": str(work_tree or place / "tree"),
            "GIT_INDEX_FILE": f"{index}/index",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": f"{place}/excludes",
            "GIT_CONFIG_KEY_1": "core.attributesFile",
            "GIT_CONFIG_VALUE_1": os.devnull,
        }
        repository = EmptyRepository(place, work_tree or place / "tree", environment)
        repository.write("git/HEAD", _HEAD)
        repository.write("git/config", _SHA256_CONFIG if algorithm == "sha256" else b"")
        repository.write("excludes", excludes)
        repository.seal()
        yield repository
        repository.require_untouched()


def _read(path: str) -> bytes | None:
    """Read a file or a link, which git could follow; None for a folder."""
    if os.path.islink(path):  # noqa: PTH114 - faster
        return os.fsencode(os.readlink(path))  # noqa: PTH115 - Path would normalize it
    return None if os.path.isdir(path) else Path(path).read_bytes()  # noqa: PTH112 - faster


_ATTRIBUTES = ".gitattributes"


def find_misconverted(
    git: Git, folder: Path, files: Sequence[TreeFile], tree: Iterable[TreeFile]
) -> list[str]:
    """List those of these files that git stores otherwise than the attributes of their tree say.

    Line endings do not count: the settings of many repositories convert them, and no other byte.
    """
    left = [file for file in files if not _has_other_line_ends(folder / file.path, file.blob)]
    if not left:
        return []
    rules = [file.path for file in tree if os.path.basename(file.path) == _ATTRIBUTES]  # noqa: PTH119
    stored = _convert(git, folder, left, rules)
    return [file.path for file in left if stored.get(file.path) != file.blob]


def _has_other_line_ends(path: Path, blob: str) -> bool:
    with open(path, "rb", opener=open_unlocked) as file:
        content = file.read()
    return compute_hash("blob", content.replace(b"\r\n", b"\n"), find_algorithm(blob)) == blob


def _convert(git: Git, folder: Path, files: Sequence[TreeFile], rules: Iterable[str]) -> dict[str, str]:
    """Return the hashes that git gives these files if nothing but the rules of their tree counts."""
    with open_empty_repository(algorithm=find_algorithm(files[0].blob)) as empty:
        for path in rules:
            if find_mode(folder / path) not in (None, LINK_MODE):
                empty.write(f"tree/{path}", (folder / path).read_bytes())
        for file in files:
            if f"tree/{file.path}" not in empty.made:
                empty.link(f"tree/{file.path}", folder / file.path)
        empty.seal()
        return hash_files(git.at(empty.tree), [file.path for file in files], env=empty.environment)


_SPECIAL = frozenset("*?[\\!# ")


def convert_rules(text: str, folder: str) -> Iterator[str]:
    """Convert the rules of the `.gitignore` in a folder, such as `docs/`, to rules of the root."""
    start = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in folder)
    for line in (each.removesuffix("\r") for each in text.split("\n")):  # nothing else ends a line for git
        rule = line if line.endswith("\\ ") else line.rstrip(" ")
        if not rule or rule.startswith("#"):
            continue
        sign, rule = ("!", rule[1:]) if rule.startswith("!") else ("", rule)
        if not folder:
            yield f"{sign}{rule}"
        elif "/" in rule.rstrip("/"):
            yield f"{sign}/{start}{rule.lstrip('/')}"
        else:
            yield f"{sign}/{start}**/{rule}"


def filter_ignored(
    git: Git, paths: Collection[str], excludes: Sequence[str], work_tree: Path | None = None
) -> set[str]:
    """Return the paths that these rules ignore, or those of the `.gitignore` files in a tree.

    Neither `info/exclude` nor the user's own ignore file counts: git is asked in an empty repository.
    """
    if not paths:
        return set()
    rules = b"".join(os.fsencode(rule) + b"\n" for rule in excludes)
    with open_empty_repository(work_tree=work_tree, excludes=rules) as empty:
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        found = git.at(empty.tree).run(
            "check-ignore", "-z", "--stdin", "--no-index",
            input=listed, env=empty.environment, ok_codes=(0, 1),
        )  # fmt: skip
    return set(os.fsdecode(found).split("\0")[:-1])


_MAX_FOLDERS = 10_000


def list_untracked_folders(git: Git) -> list[str]:
    """List untracked folders, with empty and nested ones, relative to the project."""
    return walk_untracked(
        git.root, git.run("ls-files", "-z", "--others", "--directory", "--exclude-standard")
    )


def walk_untracked(root: Path, listed: bytes) -> list[str]:
    """List the folders that `git ls-files --directory` names, and all folders in them."""
    new = [entry.rstrip("/") for entry in os.fsdecode(listed).split("\0") if entry.endswith("/")]
    found: list[str] = []
    for folder in new:
        for inner in _walk_folders(os.fspath(root), folder):
            found.append(inner)
            if len(found) == _MAX_FOLDERS:  # a large tree that is not ignored: its files are listed anyway
                return found
    return found


def _walk_folders(root: str, folder: str) -> Iterator[str]:
    for path, inner, _ in os.walk(os.path.join(root, folder)):  # noqa: PTH118
        inner[:] = [name for name in inner if name != ".git"]
        yield os.path.relpath(path, root)
