"""Patches between two trees, and the lines that they change.

A patch id covers the changed lines, one unchanged line before and after them, file names and modes; line
numbers do not count. So it stays the same when a commit is rebased or cherry-picked: a merge without a
conflict never changes the lines next to a change. Unlike in the ids of `git patch-id`, white space counts:
it has a meaning in many languages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import check_hash
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.kernel.git.command import Git

_HUNK_PATTERN = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def find_line_before(patch: str, line: int) -> int | None:
    """Return the number that a line of the new version has in the old one; None if the patch added it.

    A patch without hunks changes no line. Of a patch that is cut off, only lines before the cut are right.
    """
    offset = 0
    for old, new, kind, _ in _list_lines(patch):
        if new > line:
            break
        if kind == "+" and new == line:
            return None
        if kind == " " and new == line:
            return old
        offset = _get_offset_after(old, new, kind)
    return line + offset


def _get_offset_after(old: int, new: int, kind: str) -> int:
    """Return old minus new for the lines after this one."""
    return old + (kind != "+") - new - (kind != "-")


def _list_lines(patch: str) -> Iterator[tuple[int, int, str, str]]:
    """List the lines of hunks: the next line in the old and in the new version, the kind, and the text."""
    old = new = left_old = left_new = 0
    for text in patch.split("\n"):
        kind = text[:1] or " "  # some programs cut white space at the end of lines
        if left_old <= 0 and left_new <= 0:
            if found := _HUNK_PATTERN.match(text):
                left_old, left_new = int(found[2] or 1), int(found[4] or 1)
                # Without lines of a version, git names the line before the hunk.
                old, new = int(found[1]) + (left_old == 0), int(found[3]) + (left_new == 0)
            continue
        if kind not in " +-":
            continue
        yield old, new, kind, text[1:]
        is_old, is_new = kind != "+", kind != "-"
        old, left_old, new, left_new = old + is_old, left_old - is_old, new + is_new, left_new - is_new


def reverse_patch(patch: str) -> str:
    """Return the patch from the new version to the old one, as far as `find_line_before` reads it."""
    swapped = {"+": "-", "-": "+"}
    lines = []
    for text in patch.split("\n"):
        if found := _HUNK_PATTERN.match(text):
            lines.append(f"@@ -{found[3]},{found[4] or 1} +{found[1]},{found[2] or 1} @@")
        else:
            lines.append(swapped.get(text[:1], text[:1]) + text[1:])
    return "\n".join(lines)


TreePair = tuple[str, str]
"""The tree before a change, and the tree after it."""

# Everything that the config of a repository could change in the output is set here.
_COMMAND = (
    *("diff-tree", "--stdin", "-r", "-p", "-U1", "--inter-hunk-context=0", "--text", "-M50%", "-l400"),
    *("--full-index", "--no-color", "--diff-algorithm=myers", "--indent-heuristic"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--line-prefix="),
)
_MERGE_COMMAND = (
    "diff-tree",
    "--stdin",
    "-r",
    "--cc",
    "--text",
    "--no-renames",
    "--no-color",
    "--full-index",
)
_COMMIT_PATTERN = re.compile(rb"[0-9a-f]{40,64}")
_LINES_COMMAND = (
    *("diff-tree", "--stdin", "-r", "-p", "-U0", "--inter-hunk-context=0", "--no-renames", "--no-color"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--line-prefix="),
)
_HUNK_BYTES_PATTERN = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEADER_PATTERN = re.compile(rb"[0-9a-f]{40,64} [0-9a-f]{40,64}")
_IGNORED_LINES = (b"index ", b"similarity index ", b"dissimilarity index ")
_FILE_START = b"diff --git "
_BATCH_SIZE = 200
EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""The tree without files, by the length of its hash: what a commit without a parent is compared with."""


class GitCall(Protocol):
    """Runs git, in a repository or with the objects of its snapshots."""

    def __call__(self, *args: str, input: bytes | None = None) -> bytes: ...


def compute_patch_ids(run: GitCall, pairs: Iterable[TreePair]) -> dict[TreePair, str | None]:
    """Compute the patch id of each pair; None if the trees are missing or differ too much to be compared.

    One process compares many pairs. If it fails, smaller groups are compared, to find the pair that it
    fails for. Pairs of equal trees are left out.
    """
    unique = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    found: dict[TreePair, str | None] = {}
    for start in range(0, len(unique), _BATCH_SIZE):
        found |= _compute_batch(run, unique[start : start + _BATCH_SIZE])
    return found


def list_changed_paths(run: GitCall, pairs: Sequence[TreePair]) -> dict[TreePair, set[str]]:
    """List the files that differ between the trees of each pair."""
    if not pairs:
        return {}
    question = "".join(f"{check_hash(before)} {check_hash(after)}\n" for before, after in pairs)
    output = run("diff-tree", "--stdin", "-r", "--name-only", "--no-renames", input=question.encode())
    return {pair: {os.fsdecode(line) for line in lines if line} for pair, lines in _split_by_pair(output)}


class FileCount(NamedTuple):
    """How a file differs: A added, D removed, M changed, and by how many lines; a binary file by none."""

    path: str
    status: str
    added: int
    removed: int


def count_changed_lines(git: Git, before: str, after: str) -> list[FileCount]:
    """List the files that differ between two commits, with the numbers of lines."""
    pair = (check_hash(before), check_hash(after))
    flags = ("-r", "-z", "--no-renames")
    numbers = os.fsdecode(git.run("diff-tree", *flags, "--numstat", *pair)).split("\0")[:-1]
    raw = os.fsdecode(git.run("diff-tree", *flags, "--name-status", *pair)).split("\0")[:-1]
    statuses = dict(zip(raw[1::2], raw[::2], strict=False))
    found = []
    for line in numbers:
        added, removed, path = line.split("\t", 2)
        status = statuses.get(path, "M")
        counts = [int(each) if each.isdecimal() else 0 for each in (added, removed)]
        found.append(FileCount(path, status if status in ("A", "D") else "M", *counts))
    return found


LineRange = tuple[int, int]


def list_added_lines(run: GitCall, pairs: Sequence[TreePair]) -> dict[TreePair, dict[str, list[LineRange]]]:
    """List the lines that the second tree of each pair adds, by file, as ranges of first and last line."""
    unique = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    found: dict[TreePair, dict[str, list[LineRange]]] = {}
    for start in range(0, len(unique), _BATCH_SIZE):
        batch = unique[start : start + _BATCH_SIZE]
        question = "".join(f"{check_hash(before)} {check_hash(after)}\n" for before, after in batch)
        output = run(*_LINES_COMMAND, input=question.encode())
        found |= {pair: _parse_added_lines(lines) for pair, lines in _split_by_pair(output)}
    return found


def _parse_added_lines(lines: Iterable[bytes]) -> dict[str, list[LineRange]]:
    """Read the names of files and the headers of hunks, by counting the lines of each hunk.

    A changed line can look like the name of a file: `++ b/x` is `+++ b/x` if it is added.
    """
    found: dict[str, list[LineRange]] = {}
    name, left = "", 0
    for line in lines:
        if left > 0:
            left -= line[:1] in (b"+", b"-")
        elif line.startswith(b"+++ "):
            name = _parse_name(line[4:])
        elif hunk := _HUNK_BYTES_PATTERN.match(line):
            removed, first, added = (
                int(number or 1) if number != b"0" else 0 for number in hunk.groups(b"1")
            )
            left = removed + added
            if added and name:
                found.setdefault(name, []).append((first, first + added - 1))
    return found


def _parse_name(written: bytes) -> str:
    text = written.rstrip(b"\t\r")
    if text == b"/dev/null":
        return ""
    return os.fsdecode(unquote(text).removeprefix(b"b/"))


def unquote(name: bytes) -> bytes:
    """Return a name that git may have quoted as in C: it does so with letters outside ASCII."""
    return name[1:-1].decode("unicode_escape").encode("latin-1") if name.startswith(b'"') else name


def list_merges_with_own_changes(run: GitCall, merges: Sequence[str]) -> set[str]:
    """Return the merge commits that have content which is in none of their parents."""
    found: set[str] = set()
    for start in range(0, len(merges), _BATCH_SIZE):
        batch = merges[start : start + _BATCH_SIZE]
        output = run(*_MERGE_COMMAND, input="".join(f"{check_hash(hash)}\n" for hash in batch).encode())
        current = ""
        for line in output.split(b"\n"):
            if line[:1].isalnum() and _COMMIT_PATTERN.fullmatch(line):
                current = line.decode()
            elif line.startswith(b"diff --cc "):
                found.add(current)
    return found


def _compute_batch(run: GitCall, pairs: Sequence[TreePair]) -> dict[TreePair, str | None]:
    question = "".join(f"{check_hash(before)} {check_hash(after)}\n" for before, after in pairs)
    try:
        output = run(*_COMMAND, input=question.encode())
    except GitError:
        if len(pairs) == 1:
            return {pairs[0]: None}
        half = len(pairs) // 2
        return _compute_batch(run, pairs[:half]) | _compute_batch(run, pairs[half:])
    found: dict[TreePair, str | None] = dict.fromkeys(pairs)
    for pair, lines in _split_by_pair(output):
        found[pair] = _compute_digest(lines)
    return found


def _split_by_pair(output: bytes) -> Iterator[tuple[TreePair, list[bytes]]]:
    pair: TreePair | None = None
    lines: list[bytes] = []
    for line in output.split(b"\n"):
        # A line of a file has a prefix, so it cannot be mistaken for a header.
        if line[:1].isalnum() and _HEADER_PATTERN.fullmatch(line):
            if pair is not None:
                yield pair, lines
            before, _, after = line.decode().partition(" ")
            pair, lines = (before, after), []
        else:
            lines.append(line)
    if pair is not None:
        yield pair, lines


def _compute_digest(lines: Sequence[bytes]) -> str | None:
    """Digest the files of a patch, in an order that does not depend on settings."""
    files: list[list[bytes]] = []
    for line in lines:
        if line.startswith(_FILE_START):
            files.append([])
        if files and not line.startswith(_IGNORED_LINES):
            files[-1].append(b"@@" if line.startswith(b"@@ ") else line or b" ")
    digests = sorted(sha256(b"\n".join(_strip_end(file))).digest() for file in files)
    return sha256(b"".join(digests)).hexdigest() if digests else None


def _strip_end(file: list[bytes]) -> list[bytes]:
    """Remove the empty line after the last file, which belongs to no file."""
    while file and file[-1] == b" ":
        file = file[:-1]
    return file


@dataclass(frozen=True)
class PatchFile:
    """A file of a patch, with the lines that it removes and adds."""

    path: str
    """Its new name; the old one if it is deleted."""
    is_deleted: bool
    renamed_from: str | None
    removed: tuple[tuple[int, str], ...]
    """Numbers in the old version, and texts."""
    added: tuple[tuple[int, str], ...]


def read_changed_lines(patch: str) -> list[PatchFile]:
    """Read the files of a patch; lines of files that look like headers count as the lines that they are."""
    return [_read_file(part) for part in _split_files(patch)]


def _split_files(patch: str) -> list[list[str]]:
    """Split a patch into the lines of its files. Lines of a hunk have a prefix, so none begins a file."""
    files: list[list[str]] = []
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            files.append([])
        if files:
            files[-1].append(line)
    return files


def _read_file(lines: Sequence[str]) -> PatchFile:
    first = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    header = lines[:first]
    changes: dict[str, list[tuple[int, str]]] = {"-": [], "+": []}
    for old, new, kind, text in _list_lines("\n".join(lines[first:])):
        if kind in changes:
            changes[kind].append((old if kind == "-" else new, text))
    return PatchFile(
        _find_name(header),
        any(line.startswith("deleted file mode") for line in header),
        _find_old_name(header),
        tuple(changes["-"]),
        tuple(changes["+"]),
    )


def _find_old_name(header: Sequence[str]) -> str | None:
    start = "rename from "
    found = next((line.removeprefix(start) for line in header if line.startswith(start)), None)
    return None if found is None else os.fsdecode(unquote(os.fsencode(found)))


def _find_name(header: Sequence[str]) -> str:
    names = {line[:4]: line[4:] for line in header if line.startswith(("--- ", "+++ "))}
    for start in ("+++ ", "--- "):
        if (written := names.get(start)) and (name := _parse_name(written.encode())):
            return name.removeprefix("a/") if start == "--- " else name
    # Nothing but a mode or a name changed: `diff --git a/x b/x`.
    return header[0].rpartition(" b/")[2] if header else ""
