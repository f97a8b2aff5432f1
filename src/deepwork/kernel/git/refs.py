"""Commits and trees with hashes that are computed again, and the branches, tags and HEAD that name them.

A commit whose content has the hash that names it never changes. So each is read once for as long as this
process lives and the repository has it.
"""

from __future__ import annotations

import os
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from hashlib import new as new_hash
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from deepwork.kernel.errors import MAX_ECHOED, GitError, InvalidInput, NotAllowed
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.files.private import FileStamp, find_stamp
from deepwork.kernel.files.repositories import (
    BRANCH_PREFIX,
    Head,
    RefsElsewhere,
    is_ref_name,
    may_be_fetched,
    read_head,
    resolve_ref,
)
from deepwork.kernel.git.command import Git, check_hash, is_hash
from deepwork.kernel.git.snapshot_types import TreeFile
from deepwork.kernel.records import dataclass

FOLDER_MODE = "40000"
_SHA1_LENGTH = 40


def compute_tree_hash(files: Iterable[TreeFile], algorithm: str) -> str:
    """Return the hash of the tree that has exactly these files."""
    *_, (hash, _) = build_trees(files, algorithm)
    return hash


def build_trees(files: Iterable[TreeFile], algorithm: str) -> Iterator[tuple[str, bytes]]:
    """Yield the hash and the content of each folder with exactly these files; the root comes last."""
    folders: dict[str, list[tuple[bytes, bytes]]] = {"": []}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        _open_folder(folders, folder).append(_build_entry(file.mode, name, file.blob))
    # The deepest first: a folder needs the hashes of those in it.
    for path in sorted(folders, key=_count_levels, reverse=True):
        content = b"".join(entry for _, entry in sorted(folders[path]))
        hash = compute_hash("tree", content, algorithm)
        yield hash, content
        if path:
            folder, _, name = path.rpartition("/")
            folders[folder].append(_build_entry(FOLDER_MODE, name, hash))


def _open_folder(folders: dict[str, list[tuple[bytes, bytes]]], path: str) -> list[tuple[bytes, bytes]]:
    """Return the entries of a folder; it and those above are added if they are new."""
    if path not in folders:
        folders[path] = []
        _open_folder(folders, path.rpartition("/")[0])
    return folders[path]


def _count_levels(path: str) -> int:
    return path.count("/") + 1 if path else 0


def find_algorithm(hash: str) -> str:
    """Return the algorithm of the repository that has an object with this hash."""
    return "sha1" if len(hash) == _SHA1_LENGTH else "sha256"


def _build_entry(mode: str, name: str, hash: str) -> tuple[bytes, bytes]:
    """Build the entry of a tree, and what git sorts it by: a folder as if its name ended with a slash."""
    encoded = os.fsencode(name)
    order = encoded + b"/" if mode == FOLDER_MODE else encoded
    return order, mode.encode() + b" " + encoded + b"\0" + bytes.fromhex(hash)


def compute_hash(kind: str, content: bytes, algorithm: str) -> str:
    """Return the hash of a git object of this kind."""
    return new_hash(algorithm, b"%b %d\0%b" % (kind.encode(), len(content), content)).hexdigest()


_MAX_REMEMBERED = 4096
_MAX_LOOSE_BYTES = 2**20
_TIME_PATTERN = re.compile(r"> (\d{1,18}) [-+]\d+$")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit with its tree and its parents."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    time: int = field(default=0, compare=False)
    """When it was committed, by the clock of who did; 0 if that was not read."""


class _ReadCommit(NamedTuple):
    """A commit that was read, and where its object was then."""

    record: CommitRecord
    is_loose: bool
    packs: FileStamp | None
    """The stamp of the folder with the packs."""


_known: dict[Path, _ReadCommit] = {}
"""By the path that the object has, or would have, if it is in a file of its own."""


def read_commits(git: Git, names: Iterable[str]) -> dict[str, CommitRecord]:
    """Map these hashes, refs and other revisions to their commits; what does not exist is left out."""
    wanted = {name: _find_hash(git, name) for name in names}
    objects = git.find_path("objects")
    found = {each: known for each in wanted.values() if each and (known := _find_known(objects, each))}
    unread = [each for each in dict.fromkeys(wanted.values()) if each and each not in found]
    loose = {each: content for each in unread if (content := read_loose(objects, each, "commit"))}
    found |= {each: _parse_commit(each, content) for each, content in loose.items()}
    found |= _read_unknown(git, [each for each in unread if each not in loose])
    _remember(objects, (record for name, record in found.items() if record.commit == name))
    return {name: found[each] for name, each in wanted.items() if each in found}


def find_known_commits(git: Git, hashes: Iterable[str]) -> dict[str, CommitRecord]:
    """Return those of these commits that this process has read; that starts no program."""
    objects = git.find_path("objects")
    return {each: known for each in hashes if (known := _find_known(objects, each))}


def _find_known(objects: Path, hash: str) -> CommitRecord | None:
    """Return a commit that was read before, if the repository still has it."""
    known = _known.get(_get_place(objects, hash))
    if known is None:
        return None
    return known.record if _look(objects, hash) == (known.is_loose, known.packs) else None


def _remember(objects: Path, records: Iterable[CommitRecord]) -> None:
    for record in records:
        if len(_known) >= _MAX_REMEMBERED:
            _known.clear()
        _known[_get_place(objects, record.commit)] = _ReadCommit(record, *_look(objects, record.commit))


def _look(objects: Path, hash: str) -> tuple[bool, FileStamp | None]:
    """Return whether the object has a file of its own; if not, the stamp of the packs: one of them has it."""
    is_loose = _get_place(objects, hash).exists()
    return is_loose, None if is_loose else find_stamp(f"{objects}/pack")


def _get_place(objects: Path, hash: str) -> Path:
    return objects / hash[:2] / hash[2:]


def read_loose(objects: Path, hash: str, kind: str) -> bytes | None:
    """Return the content of an object that has a file of its own; None if only git can tell.

    Git does not compare the content with the hash. Here it has to fit, whoever wrote the file.
    """
    if not is_hash(hash):
        return None
    try:
        with open(_get_place(objects, hash), "rb", opener=_open_without_waiting) as file:
            stored = zlib.decompressobj().decompress(file.read(_MAX_LOOSE_BYTES), _MAX_LOOSE_BYTES)
    except (OSError, zlib.error):
        return None
    head, _, content = stored.partition(b"\0")
    fits = head.startswith(kind.encode()) and compute_hash(kind, content, find_algorithm(hash)) == hash
    return content if fits else None


def _open_without_waiting(path: str, flags: int) -> int:
    return open_unlocked(path, flags | os.O_NONBLOCK)  # it may be a pipe


def resolve_branch(git: Git, name: str) -> str | None:
    """Return the commit that `HEAD` or a ref such as `refs/heads/main` is at; None if there is none.

    Raises RefsElsewhere if git has to be asked: about other names, and where its refs are not in files.
    """
    if name != "HEAD" and not name.startswith(BRANCH_PREFIX):
        raise RefsElsewhere
    return resolve_ref(git.find_places().git_dir, name)[1]


def _find_hash(git: Git, name: str) -> str | None:
    try:
        return resolve_branch(git, name)
    except RefsElsewhere:
        return name


def find_trees(git: Git, commits: Iterable[str]) -> dict[str, str]:
    """Return the trees of these commits; those that are not in this repository are left out."""
    return {commit: record.tree for commit, record in read_commits(git, commits).items()}


def get_tree(git: Git, commit: str) -> str:
    """Return the tree of a commit."""
    found = find_trees(git, [check_hash(commit)])
    if not found:
        raise GitError(f"The repository has no commit {commit}.")
    return found[commit]


def _read_unknown(git: Git, wanted: Sequence[str]) -> dict[str, CommitRecord]:
    # Passed on stdin: as an argument, `-x` would be an option and `a..b` a range.
    question = "".join(f"{name}^{{commit}}\n" for name in wanted)
    answer = git.run("cat-file", "--batch", input=os.fsencode(question)) if wanted else b""
    found: dict[str, CommitRecord] = {}
    for name in wanted:
        head, _, answer = answer.partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or words[1] != b"commit":  # missing, or something else
            continue
        size = int(words[2])
        found[name] = _parse_commit(words[0].decode(), answer[:size])
        answer = answer[size + 1 :]
    return found


def list_newer_commits(git: Git, start: str, end: str) -> list[CommitRecord]:
    """List the commits that one commit contains and an older one does not; `--all` is what any ref has."""
    listed = git.run("log", "--format=%H %T %P", end, f"^{start}", "--").decode().splitlines()
    lines = (line.split() for line in listed)
    return [CommitRecord(check_hash(hash), check_hash(tree), tuple(more)) for hash, tree, *more in lines]


def read_branch_tips(git: Git, branches: Iterable[str]) -> dict[str, CommitRecord]:
    """Map the local branches that exist to their tips."""
    found = read_commits(git, [BRANCH_PREFIX + branch for branch in branches])
    return {name.removeprefix(BRANCH_PREFIX): record for name, record in found.items()}


def _parse_commit(commit: str, content: bytes) -> CommitRecord:
    if compute_hash("commit", content, find_algorithm(commit)) != commit:  # git does not look
        raise GitError(
            f"The repository is damaged: the commit {commit[:12]} has another content than its hash says.",
            suggestion="Look at it with `git fsck`.",
        )
    # As git reads it: only a line feed ends a line, and parents follow the tree. Names are free text.
    header = content.partition(b"\n\n")[0].decode(errors="replace").split("\n")
    tree = header[0].removeprefix("tree ")
    parents = takewhile(lambda line: line.startswith("parent "), header[1:])
    named = tuple(check_hash(line.removeprefix("parent ")) for line in parents)
    return CommitRecord(check_hash(commit), check_hash(tree), named, _parse_time(header))


def _parse_time(header: Sequence[str]) -> int:
    said = next((line for line in header if line.startswith("committer ")), "")
    found = _TIME_PATTERN.search(said)
    return int(found[1]) if found else 0


IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "deepwork"), ("EMAIL", "deepwork@localhost"))
}
"""Author and committer of commits that deepwork creates."""

_MAX_NAME_LENGTH = 200
# Excludes NUL, line breaks, and surrogates that cannot be passed to a program.
_REF_NAME_PATTERN = re.compile(r"[^\0\n\ud800-\udc7f\udd00-\udfff]+")


def find_current_branch(git: Git) -> str | None:
    """Return the current branch, even before its first commit; None if HEAD is detached."""
    return (find_symbolic_target(git, "HEAD") or "").removeprefix(BRANCH_PREFIX) or None


def find_symbolic_target(git: Git, ref: str) -> str | None:
    """Return the ref that a ref only stands for; None if it is at a commit itself, or does not exist."""
    try:
        target, _ = resolve_ref(git.find_places().git_dir, ref)
    except RefsElsewhere:
        ok_codes = (0, 1) if ref == "HEAD" else (0, 1, 128)  # there need not be such a branch
        return os.fsdecode(git.run("symbolic-ref", "--quiet", ref, ok_codes=ok_codes)).strip() or None
    return None if target == ref else target


def resolve_commit(git: Git, name: str) -> str | None:
    """Return the full commit hash for a branch, a tag or any other revision; None if there is none."""
    if not _REF_NAME_PATTERN.fullmatch(name):
        return None
    with suppress(RefsElsewhere):
        return resolve_branch(git, name)
    found = read_commits(git, [name]).get(name)
    return found.commit if found else None


def find_branch_tip(git: Git, branch: str) -> str | None:
    """Return the tip of a local or remote branch; a tag of the same name does not count."""
    return resolve_commit(git, BRANCH_PREFIX + branch) or resolve_commit(git, branch)


FIRST_COMMIT: Final = "git add --all && git commit --message Begin"
"""The command that helps in a repository without a commit."""


def get_commit(git: Git, name: str | None) -> str:
    """Resolve a name, by default HEAD, to a commit; raises if it does not exist."""
    commit = resolve_commit(git, name or "HEAD")
    if commit is not None:
        return commit
    if name in (None, "HEAD"):
        raise NotAllowed(
            f"The repository in {git.root} has no commit yet.",
            suggestion=f"Create a first commit, then call again: `{FIRST_COMMIT}`.",
        )
    raise InvalidInput(
        f"There is no branch, tag or commit {str(name)[:MAX_ECHOED]!r} in this repository.",
        suggestion="Name one that `git branch --all` or `git log` shows, or omit it for HEAD.",
    )


def contains_branch(git: Git, commit: str, branch: str) -> bool:
    """Return whether the commit contains the tip of the branch; False if either does not exist."""
    hash, tip = resolve_commit(git, commit), find_branch_tip(git, branch)
    return hash is not None and tip is not None and is_ancestor(git, tip, hash)


def find_merge_commit(git: Git, branch: str, base: str) -> str | None:
    """Return the commit that merged the branch into the base; None if unmerged or squashed.

    It is the first commit on the base's first-parent line that contains the branch: a merge commit, or the
    branch tip after a fast-forward. A branch without its own commits counts as fast-forwarded.
    """
    tip, end = find_branch_tip(git, branch), find_branch_tip(git, base)
    if tip is None or end is None or not is_ancestor(git, tip, end):
        return None
    listed = git.run("rev-list", "--first-parent", "--reverse", "--parents", end, f"^{tip}", "--").decode()
    line = [entry.split(" ") for entry in listed.splitlines()]
    if not line or line[0][1:2] == [tip]:
        return tip
    commits = [entry[0] for entry in line]
    # All commits after the merge contain the branch too, so a binary search finds the first.
    return commits[bisect_left(commits, True, key=lambda commit: is_ancestor(git, tip, commit))]


def check_branch_name(branch: str) -> None:
    """Raise InvalidInput unless git accepts the name for a new branch."""
    if len(branch) > _MAX_NAME_LENGTH:
        raise _build_branch_name_error(branch, f"is longer than {_MAX_NAME_LENGTH} characters")
    is_argument = _REF_NAME_PATTERN.fullmatch(branch) and not branch.startswith("-")
    if not is_argument or branch == "@" or not is_ref_name(BRANCH_PREFIX + branch):
        raise _build_branch_name_error(branch, "is not accepted by git")
    if is_hash(branch):
        raise _build_branch_name_error(branch, "would be mistaken for a commit")
    # Each part becomes a file name, extended by ".lock" on update and by a number on rescue branches.
    if any(len(os.fsencode(part)) > _MAX_NAME_LENGTH for part in branch.split("/")):
        raise _build_branch_name_error(branch, f"has a part longer than {_MAX_NAME_LENGTH} bytes")


def find_conflicting_branch(git: Git, branch: str) -> str | None:
    """Return a branch that prevents this one: `a` and `a/b` cannot both exist."""
    parts = branch.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    listed = git.run(
        "for-each-ref", "--format=%(refname)", *(BRANCH_PREFIX + name for name in (*above, branch))
    )
    taken = {ref.removeprefix(BRANCH_PREFIX) for ref in os.fsdecode(listed).split("\n")}
    below = sorted(name for name in taken if name.startswith(f"{branch}/"))
    return next((name for name in (*above, *below) if name in taken), None)


def has_branch(git: Git, branch: str) -> bool:
    return resolve_commit(git, BRANCH_PREFIX + branch) is not None


def create_branch(git: Git, branch: str, commit: str) -> None:
    """Create a branch; raises if it exists, also when two callers create it concurrently."""
    git.run("update-ref", BRANCH_PREFIX + branch, commit, "0" * len(commit), env=IDENTITY)


def find_pushed_branch(git: Git, branch: str) -> str | None:
    """Return the tip of a branch as it was last fetched, from the remote where it is newest."""
    if not may_be_fetched(git.find_places().common_dir, branch):
        return None
    wanted = f"refs/remotes/*/{branch}"
    found = git.run("for-each-ref", "--count=1", "--sort=-committerdate", "--format=%(objectname)", wanted)
    return check_hash(found.decode().strip()) if found else None


def take_pushed_branch(git: Git, branch: str) -> None:
    """Create a branch that was fetched but is not here, where it was last pushed."""
    if not has_branch(git, branch) and (tip := find_pushed_branch(git, branch)):
        create_branch(git, branch, tip)


def delete_branch(git: Git, branch: str, commit: str) -> None:
    """Delete a branch if it still points at the commit."""
    git.run("update-ref", "-d", BRANCH_PREFIX + branch, commit, env=IDENTITY)


def is_reachable(git: Git, commit: str) -> bool:
    """Return whether a branch or tag contains the commit, so that git never collects it as garbage."""
    holders = ("refs/heads", "refs/tags", "refs/remotes")
    return git.run("for-each-ref", "--count=1", f"--contains={commit}", *holders) != b""


def is_ancestor(git: Git, commit: str, tip: str) -> bool:
    """Return whether the commit is the tip or one of its ancestors."""
    return commit == tip or git.run("rev-list", "--max-count=1", commit, f"^{tip}", "--") == b""


def find_first_commit(git: Git, branch: str) -> str:
    """Return where the history of a branch began: the same commit in all clones, except shallow ones.

    The file `shallow` counts only where commits are missing: anybody can write other ones into it.
    """
    command = ("rev-list", "--first-parent", "--max-parents=0", BRANCH_PREFIX + branch, "--")
    try:
        listed = git.run(*command, env={"GIT_SHALLOW_FILE": os.devnull})
    except GitError:
        listed = git.run(*command)
    return check_hash(listed.decode().strip())


def find_common_ancestor(git: Git, one: str, other: str) -> str | None:
    """Return the merge base of two commits; None if their histories are unrelated."""
    found = git.run("merge-base", one, other, ok_codes=(0, 1)).decode().strip()
    return check_hash(found) if found else None


def _build_branch_name_error(branch: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"The branch name {branch[:MAX_ECHOED]!r} {reason}.",
        suggestion="Use letters, digits, dashes and slashes, for instance 'deepwork/fix-login'.",
    )


def find_head(git: Git) -> Head | None:
    """Return the commit and branch that the tree is on; None without a repository or a commit.

    Git itself is asked only where its refs are not in files.
    """
    try:
        return read_head(git.root)
    except RefsElsewhere:
        commit = resolve_commit(git, "HEAD")
        return Head(commit, find_current_branch(git)) if commit else None
