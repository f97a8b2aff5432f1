"""Reads where a repository is, its branches and its index from git's own files, without starting git.

Git answers the same questions (`rev-parse`), but with one program each. The files are read again for every
answer: that takes microseconds, and nothing that changed in between is missed.
"""

from __future__ import annotations

import mmap
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence


def find_repository(folder: Path) -> Path | None:
    """Return the main tree of the repository that contains the folder, also from a linked worktree."""
    tree = find_tree_root(folder)
    return tree and (find_main_tree(tree) or tree)


def find_tree_root(folder: Path) -> Path | None:
    """Return the root of the working tree that contains the folder."""
    # Not `Path.exists`, which takes several times as long: every change of a task asks this.
    return next((each for each, mark in _list_marks(folder) if os.path.exists(mark)), None)  # noqa: PTH110


@lru_cache
def _list_marks(folder: Path) -> list[tuple[Path, str]]:
    """List the folder and its parents, each with the path that exists if it is the root of a working tree."""
    return [(each, f"{each}/.git") for each in (folder, *folder.parents)]


def find_main_tree(root: Path) -> Path | None:
    """Return the main tree if this folder is a linked git worktree, otherwise None.

    The worktree's `.git` file and git's `gitdir` file must point at each other, so that a forged `.git` file
    in a downloaded project cannot choose which store is used.
    """
    try:
        gitdir = root / _read_pointer(root / ".git", "gitdir: ")
        points_back = _is_same(gitdir / _read_pointer(gitdir / "gitdir"), root / ".git")
    except (OSError, ValueError):
        return None
    is_worktree = gitdir.parent.name == "worktrees" and gitdir.parent.parent.name == ".git"
    main = gitdir.resolve().parents[2:3] if is_worktree and points_back else ()
    return main[0] if main else None


def is_tree_of(repository: Path, folder: Path) -> bool:
    """Return whether the folder is in a working tree of this repository: its main tree or a linked one."""
    own, other = find_tree_root(repository), find_tree_root(folder)
    if own is None or other is None:
        return False
    if own.resolve() == other.resolve():
        return True
    return _get_git_folder(own) == _get_git_folder(other)


def find_git_folder(tree: Path) -> Path:
    """Return the git folder of a working tree, which has its index; that of a submodule is elsewhere."""
    try:
        return tree / _read_pointer(tree / ".git", "gitdir: ")
    except (OSError, ValueError):
        return tree / ".git"


def is_shallow(tree: Path) -> bool:
    """Return whether the repository of a working tree lacks the beginning of its history."""
    return (_get_git_folder(tree) / "shallow").exists()


def _get_git_folder(root: Path) -> Path:
    """Return the git folder of a tree; linked worktrees share that of their repository."""
    return _find_shared_git_folder(root) or (root / ".git").resolve()


def _find_shared_git_folder(root: Path) -> Path | None:
    """Return the git folder that a linked worktree shares with the other trees; None for any other tree."""
    try:
        gitdir = root / _read_pointer(root / ".git", "gitdir: ")
        points_back = _is_same(gitdir / _read_pointer(gitdir / "gitdir"), root / ".git")
        return (gitdir / _read_pointer(gitdir / "commondir")).resolve() if points_back else None
    except (OSError, ValueError):
        return None


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths name the same place."""
    return one == other or one.resolve() == other.resolve()


def _read_pointer(file: Path, before: str = "") -> str:
    if file.is_dir():
        raise ValueError
    text = file.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
    if not text.startswith(before):
        raise ValueError
    return text.removeprefix(before)


_COMMIT_PATTERN = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?)(?:\s|$)")
_REFUSED_PATTERN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|\.$|/\.|\.lock(/|$)")
_MAX_LINE, _MAX_STEPS = 4096, 5
BRANCH_PREFIX = "refs/heads/"
_ELSEWHERE = "refs/heads/.invalid"
"""What HEAD says where git keeps its refs in tables instead of files."""


class Head(NamedTuple):
    """The commit that a tree is on, and its branch; None if HEAD is detached."""

    commit: str
    branch: str | None


class RefsElsewhere(Exception):
    """The refs are not in files: only git can tell."""


class Ref(NamedTuple):
    """What a ref says: the commit it is at, or the other ref that it stands for."""

    commit: str | None
    target: str | None = None


def read_head(folder: Path) -> Head | None:
    """Return the commit and branch of the tree that contains the folder; None without one or a commit.

    Raises RefsElsewhere if git has to be asked.
    """
    root = find_tree_root(folder)
    if root is None:
        return None
    ref, commit = resolve_ref(find_git_folder(root), "HEAD")
    branch = ref.removeprefix(BRANCH_PREFIX) if ref.startswith(BRANCH_PREFIX) else None
    return Head(commit, branch) if commit else None


def resolve_ref(git_folder: Path, ref: str) -> tuple[str, str | None]:
    """Return the ref that a ref stands for in the end, mostly itself, and its commit, if it has one.

    Raises RefsElsewhere if git has to be asked.
    """
    for _ in range(_MAX_STEPS):
        said = read_ref(git_folder, ref)
        if said is None or said.target is None:
            return ref, said and said.commit
        ref = said.target
    raise RefsElsewhere


def read_ref(git_folder: Path, ref: str) -> Ref | None:
    """Read `HEAD` or a ref such as `refs/heads/main`; None if there is none.

    Raises RefsElsewhere if git has to be asked.
    """
    if not is_ref_name(ref):
        raise RefsElsewhere
    shared = _find_shared_folder(git_folder)
    said = _read_own_file((git_folder if ref == "HEAD" else shared) / ref)
    if said is None:
        if os.path.lexists(shared / "reftable"):
            raise RefsElsewhere
        return _find_packed(shared, ref)
    if said.startswith("ref:"):
        target = said.removeprefix("ref:").strip()
        if target == _ELSEWHERE:
            raise RefsElsewhere
        return Ref(None, target)
    if found := _COMMIT_PATTERN.match(said):
        return Ref(found[1])
    raise RefsElsewhere  # damaged: git says how


def is_ref_name(ref: str) -> bool:
    """Return whether git accepts a name below `refs/`, or `HEAD`."""
    is_placed = ref == "HEAD" or (ref.startswith("refs/") and ref != "refs/heads/HEAD")
    return is_placed and not _REFUSED_PATTERN.search(ref)


def _find_packed(git_folder: Path, ref: str) -> Ref | None:
    try:
        packed = (git_folder / "packed-refs").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefsElsewhere from error
    name = re.escape(os.fsencode(ref))
    found = re.search(rb"^([0-9a-f]{40}(?:[0-9a-f]{24})?) " + name + rb"$", packed, re.MULTILINE)
    return Ref(found[1].decode()) if found else None


def may_be_fetched(git_folder: Path, branch: str) -> bool:
    """Return whether a remote may have the branch, as it was last fetched: git knows which ones do."""
    if os.path.lexists(git_folder / "reftable"):
        return True
    try:
        packed = (git_folder / "packed-refs").read_bytes()
    except FileNotFoundError:
        packed = b""
    except OSError:
        return True
    return os.fsencode(f"/{branch}\n") in packed or any((git_folder / "refs/remotes").glob(f"*/{branch}"))


def _read_own_file(file: Path) -> str | None:
    """Return what the file of a ref says; None if it has no file."""
    try:
        if file.is_symlink():  # the old form of a symbolic ref
            raise RefsElsewhere
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            return opened.readline(_MAX_LINE).rstrip("\n")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise RefsElsewhere from error


def _find_shared_folder(git_folder: Path) -> Path:
    """Return the folder with the branches, which linked worktrees share."""
    try:
        with (git_folder / "commondir").open(encoding="utf-8", errors="surrogateescape") as opened:
            return git_folder / opened.readline(_MAX_LINE).rstrip("\r\n")
    except OSError:
        return git_folder


_HEADER_BYTES = 12
_SEARCHABLE_VERSIONS = (2, 3)
_LENGTH_MASK = 0xFFF
_IS_EXTENDED, _IS_ASSUMED_UNCHANGED = 0x4000, 0x8000
_STATUS_BYTES = 40
_TREE_PATTERN = re.compile(rb"\0(\d+) \d+\n(.{20,32})", re.DOTALL)
"""The root in the list of written trees: how many entries are below it, and its hash."""
_HARMLESS_EXTENSIONS = frozenset({b"TREE", b"REUC", b"UNTR", b"FSMN", b"EOIE"})
"""Not `link` or `sdir`, with which entries are elsewhere, nor `IEOT`, which says where entries begin."""


def is_tracked(path: Path, suffixes: Sequence[str] = ("",)) -> bool | None:
    """Return whether git tracks the path with one of these suffixes; None if only git can tell."""
    folder = path.parent.resolve()
    tree = find_tree_root(folder)
    if tree is None:
        return False
    git = find_git_folder(tree)
    name = os.fsencode((folder / path.name).relative_to(tree))
    try:
        with (
            (git / "index").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as index,
        ):
            found = find_in_index(index, name, [suffix.encode() for suffix in suffixes])
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no index yet, or an empty one
        return False
    except OSError:
        return None
    # Parts of a split index are in other files.
    return found or (None if found is None or any(git.glob("sharedindex.*")) else False)


def find_in_index(index: bytes | mmap.mmap, name: bytes, suffixes: Sequence[bytes]) -> bool | None:
    """Return whether the index lists the name with one of the suffixes; None if its format is another."""
    if index[:4] != b"DIRC" or int.from_bytes(index[4:8]) not in _SEARCHABLE_VERSIONS:
        return None
    place = index.find(name, _HEADER_BYTES)
    while place >= 0:
        end = index.find(b"\0", place)
        path = index[place:end]
        if path.removeprefix(name) in suffixes and _begins_path(index, place, len(path)):
            return True
        place = index.find(name, place + 1)
    return False


class IndexFacts(NamedTuple):
    """What an index says about all of its entries."""

    may_hide_changes: bool = True
    """Whether it marks a file as unchanged or as not checked out, or may do so."""
    tree: str | None = None
    """The tree that was written from exactly these entries, or that they were read from, if that is known."""


def read_index_facts(index: bytes, hash_bytes: int) -> IndexFacts:
    """Follow the entries of an index as git does; certain is only what can be followed to the end.

    `hash_bytes` is the length of a hash in this repository.
    """
    version, count = int.from_bytes(index[4:8]), int.from_bytes(index[8:12])
    if index[:4] != b"DIRC" or version not in _SEARCHABLE_VERSIONS:
        return IndexFacts()
    place, end, fixed = _HEADER_BYTES, len(index) - hash_bytes, _STATUS_BYTES + hash_bytes + 2
    for _ in range(count):
        name = place + fixed
        flags = int.from_bytes(index[name - 2 : name])
        if name > end or flags & (_IS_ASSUMED_UNCHANGED | _IS_EXTENDED):
            return IndexFacts()
        length = flags & _LENGTH_MASK
        if length == _LENGTH_MASK:
            length = max(index.find(b"\0", name) - name, 0)
        place += (fixed + length + 8) & ~7
    tree = None
    while place + 8 <= end and index[place : place + 4] in _HARMLESS_EXTENSIONS:
        size = int.from_bytes(index[place + 4 : place + 8])
        if index[place : place + 4] == b"TREE":
            tree = _TREE_PATTERN.match(index[place + 8 : place + 8 + size])
        place += 8 + size
    if place != end:
        return IndexFacts()
    is_written = tree is not None and int(tree[1]) == count
    return IndexFacts(False, tree[2][:hash_bytes].hex() if tree and is_written else None)


def _begins_path(index: bytes | mmap.mmap, place: int, length: int) -> bool:
    """Whether a path of this length begins here: the flags before it contain its length."""
    flags = int.from_bytes(index[place - 2 : place])
    extended = int.from_bytes(index[place - 4 : place - 2])
    shown = min(length, _LENGTH_MASK)
    return flags & _LENGTH_MASK == shown or (
        extended & _IS_EXTENDED != 0 and extended & _LENGTH_MASK == shown
    )


_SHARED = frozenset({"config", "info", "logs", "objects", "packed-refs", "refs", "shallow", "worktrees"})
_OWN = frozenset({"info/sparse-checkout", "logs/HEAD"})
_MAX_POINTER_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of a working tree and its repository; all are absolute and without links."""

    top: Path
    git_dir: Path
    """Has the index and HEAD of this tree."""
    common_dir: Path
    """Has the settings, objects and branches, which linked worktrees share; mostly the same as `git_dir`."""

    def find(self, name: str) -> Path:
        """Return where a file of the repository is, such as `index` or `info/exclude`."""
        is_shared = name.partition("/")[0] in _SHARED and name not in _OWN
        return (self.common_dir if is_shared else self.git_dir) / name

    def is_complete(self) -> bool:
        """Return whether everything is there without which git would not take it for a repository."""
        has_head = os.path.lexists(self.git_dir / "HEAD")
        return has_head and (self.common_dir / "objects").is_dir() and (self.common_dir / "refs").is_dir()


def read_places(top: Path) -> Places:
    """Read the places of a working tree: its `.git` is the git folder, or a file that names it."""
    mark = top / ".git"
    said = _read_pointer_bytes(mark)
    git_dir = _resolve(top, said.removeprefix(b"gitdir: ")) if said.startswith(b"gitdir: ") else _real(mark)
    return Places(top, git_dir, _resolve(git_dir, _read_pointer_bytes(git_dir / "commondir")))


def _read_pointer_bytes(path: Path) -> bytes:
    """Return what a file says; nothing if it is a folder or missing."""
    try:
        # Without blocking: a pipe of that name must not stop us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MAX_POINTER_BYTES).rstrip(b"\r\n")
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _resolve(folder: Path, pointer: bytes) -> Path:
    return _real(folder / os.fsdecode(pointer)) if b"\0" not in pointer else folder


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
