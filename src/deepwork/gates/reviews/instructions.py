"""Writes the instructions of reviews, one self-contained file each, and remembers who asked for which.

A file is named by a hash of its content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from deepwork.gates.reviews.discovery import walk_files
from deepwork.gates.reviews.models import Review
from deepwork.gates.reviews.rule_rounds import RuleRounds
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER
from deepwork.kernel.errors import InvalidInput, NotFound
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.files.paths import read_confined
from deepwork.kernel.files.private import (
    find_stamp,
    make_state_folder,
    read_state_file,
    remove_old_files,
    to_printable_name,
    to_storage_error,
    write_atomically,
)
from deepwork.kernel.foreign_text import fence
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import encode_letters

FOLDER = f"{TMP_FOLDER}/review_instructions"

_MAX_AGE_SECONDS = 7 * 24 * 3600
_MAX_SHOWN_BYTES = 32 * 1024
_MAX_TOTAL_SHOWN_BYTES = 256 * 1024
_CHUNK_BYTES = 2**20
_REVIEW_ID_PATTERN = re.compile(r"rv_[0-9a-z]{12}")
_INSTRUCTIONS_FILE_PATTERN = re.compile(
    rf"\.?{_REVIEW_ID_PATTERN.pattern}\.md(\.[0-9a-f]+\.tmp)?"
)  # with temporary files after a crash


@dataclass(frozen=True)
class PreparedReview:
    """A review with its id and its instructions file."""

    review: Review
    id: str
    path: str
    """The file with the instructions, relative to the project."""


class InstructionFiles:
    """The instruction files of a project's reviews.

    They are named by a hash of the rule and of the files under review, so several servers in one
    project write the same file for the same review and never delete each other's.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / FOLDER

    def prepare(self, reviews: Iterable[Review]) -> list[PreparedReview]:
        """Give every review its id and its path, without writing anything."""
        hashes = _FileHashes(self._root)
        prepared = ((review, _compute_id(review, hashes)) for review in reviews)
        return [PreparedReview(review, id, f"{FOLDER}/{id}.md") for review, id in prepared]

    def write(
        self, reviews: Sequence[PreparedReview], changed: Sequence[str], rounds: RuleRounds | None = None
    ) -> None:
        """Write the instructions and remove old files that are no longer needed."""
        # The state folder has a .gitignore; without it git would list the instructions as changes.
        make_state_folder(self._root / STATE_FOLDER)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = remove_old_files(self._folder, _INSTRUCTIONS_FILE_PATTERN, _MAX_AGE_SECONDS)
        except OSError as error:
            raise to_storage_error("write", self._folder, error) from error
        for each in reviews:
            path = self._root / each.path
            content = _render_instructions(each, changed, self._root, rounds).encode()
            is_recent = kept.get(path.name, _MAX_AGE_SECONDS) < _MAX_AGE_SECONDS / 2
            if not is_recent or not _has_content(path, content):
                write_atomically(path, content, is_durable=False)

    def is_current(self, review_id: str, review: Review) -> bool:
        """Whether the files are still those that the review is of."""
        return _compute_id(review, _FileHashes(self._root)) == review_id

    def get_title(self, review_id: str) -> str:
        """Return the first line of the instructions; raise NotFound for an unknown review."""
        missing = NotFound("review", review_id, suggestion=_UNKNOWN_REVIEW_SUGGESTION)
        if not _REVIEW_ID_PATTERN.fullmatch(review_id):  # it becomes part of a path
            raise missing
        try:
            with open(self._folder / f"{review_id}.md", "rb", opener=_open_no_follow) as file:
                return file.readline().decode(errors="replace").removeprefix("# Review: ").strip()
        except OSError:
            raise missing from None


_UNKNOWN_REVIEW_SUGGESTION = (
    "Call {tool:get_review_instructions} and use the review_id in the last line of an instructions file."
)


def format_path(path: str) -> str:
    """Format a path for a list; one with unprintable characters is quoted so that it stays on its line."""
    if path.isprintable():  # the common case
        return path
    name = to_printable_name(path)
    return name if name.isprintable() else json.dumps(name)


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the file already has this content."""
    try:
        with open(path, "rb", buffering=0, opener=_open_no_follow) as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False


class _FileHashes(dict[str, bytes]):
    """Maps a file to the bytes that represent it in an id: its name and a hash of its content, read once."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, file: str) -> bytes:
        content = _hash_file(os.path.join(self._root, file))  # noqa: PTH118 - faster than a Path
        self[file] = _delimit(file) + content
        return self[file]


def _delimit(word: str) -> bytes:
    """Encode the word with its length, so that a sequence of words is unambiguous."""
    encoded = os.fsencode(word)
    return b"%d:%s" % (len(encoded), encoded)


def _hash_file(path: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0, opener=_open_no_follow) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except IsADirectoryError:
        digest.update(_describe_submodule(path))
    except OSError:  # a symbolic link, or unreadable: hash the link's target path
        with suppress(OSError):
            digest.update(os.fsencode(os.readlink(path)))  # noqa: PTH115
    return digest.digest()


def _open_no_follow(path: str, flags: int) -> int:
    """Open without following a symbolic link and without blocking on a named pipe."""
    return open_unlocked(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _describe_submodule(path: str) -> bytes:
    """Describe a submodule, one path to git, by the stamps of its files: hashing them could take long."""
    files = sorted(walk_files(Path(path)))
    return os.fsencode("".join(f"{file}\0{find_stamp(os.path.join(path, file))}\0" for file in files))  # noqa: PTH118


def _compute_id(review: Review, hashes: _FileHashes) -> str:
    """Compute the review id, which depends only on the rule and on the files under review."""
    rule = review.rule
    words = (rule.file, rule.name, rule.strategy.value, rule.instructions, str(len(review.files)))
    parts = [*map(_delimit, words), *map(hashes.__getitem__, (*review.files, *review.unchanged))]
    return f"rv_{encode_letters(hashlib.sha256(b''.join(parts)).digest())}"


def _render_instructions(
    instructions: PreparedReview, changed: Sequence[str], root: Path, rounds: RuleRounds | None
) -> str:
    review, rule = instructions.review, instructions.review.rule
    parts = [
        f"# Review: {rule.name} — {format_path(review.scope)}",
        f"## Review Instructions\n\n{rule.instructions}",
        "## Files to Review\n\nPaths are relative to the root of the project.\n\n"
        + "\n".join(f"- @{format_path(file)}" for file in review.files),
    ]
    if rounds and (changes := rounds.render_changes(review)) is not None:
        parts.append(f"## Changed Since the Last Round\n\n{fence(changes)}")
    if review.unchanged:
        parts.append(_render_unchanged(review.unchanged, root))
    if rule.names_all_changed:
        parts.append("## All Changed Files\n\n" + "\n".join(f"- {format_path(file)}" for file in changed))
    parts.append(_CLOSING_TEXT.format(id=instructions.id))
    if rounds:
        parts.append(f"{_FINDINGS_TEXT}\n\n{rounds.render_guidelines(review)}")
    policy = f"This review was requested by the policy in {format_path(rule.defining_file)}"
    return "\n\n".join([*parts, "---", f"{policy}; review_id: {instructions.id}"]) + "\n"


_CLOSING_TEXT = """\
## When You Are Done

Report each necessary change with its file and line. If nothing must change, say PASSED and make sure that
`mark_review_passed` is called with the review_id `{id}`: this review is then skipped until its rule or its
files change."""
_FINDINGS_TEXT = "Otherwise `mark_review_passed` must be called with the review_id and your `findings`."


def _render_unchanged(files: Sequence[str], root: Path) -> str:
    """Render the files to compare with: all names, and as much content as fits."""
    room = _MAX_TOTAL_SHOWN_BYTES
    parts = ["## Unchanged Matching Files"]
    for file in files:
        text = _read_text(root, file, min(room, _MAX_SHOWN_BYTES)) if room else None
        if text is None:
            parts.append(f"- @{format_path(file)} (not shown here: read it if you need it)")
        else:
            room -= len(text.encode())
            parts.append(f"- @{format_path(file)}\n\n{fence(text.removesuffix(chr(10)))}")
    return "\n\n".join(parts)


def _read_text(root: Path, file: str, room: int) -> str | None:
    """Return the text of a file; None if it is binary or too long."""
    try:
        text = read_confined(root, file, max_bytes=room).decode()
    except (InvalidInput, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


_MAX_REQUEST_AGE_SECONDS = 30 * 24 * 3600
_REQUEST_FILE_PATTERN = re.compile(rf"{_REVIEW_ID_PATTERN.pattern}\.json")


@dataclass(frozen=True)
class ReviewRequest:
    """What a review is of, and who asked for it first: that agent counts as the author of the files."""

    rule_file: str
    rule_name: str
    files: tuple[str, ...]
    unchanged: tuple[str, ...]
    asked_by: str


class RequestFiles:
    """The requested reviews of a project, by review id."""

    def __init__(self, root: Path) -> None:
        self._folder = root / TMP_FOLDER / "review_requests"

    def write(self, reviews: Iterable[tuple[str, Review]], asked_by: str) -> None:
        """Remember requested reviews; one that is known keeps who asked for it."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = remove_old_files(self._folder, _REQUEST_FILE_PATTERN, _MAX_REQUEST_AGE_SECONDS)
        except OSError as error:
            raise to_storage_error("write", self._folder, error) from error
        for id, review in reviews:
            path = self._folder / f"{id}.json"
            if path.name not in known:
                rule = review.rule
                request = ReviewRequest(rule.file, rule.name, review.files, review.unchanged, asked_by)
                write_atomically(path, json.dumps(asdict(request)).encode(), is_durable=False)

    def load(self, review_id: str) -> ReviewRequest | None:
        """Load what a review is of; None if that is unknown, or the file is damaged."""
        if not _REVIEW_ID_PATTERN.fullmatch(review_id):
            return None
        try:
            data = json.loads(read_state_file(self._folder / f"{review_id}.json"))
            lists = {key: tuple(data[key]) for key in ("files", "unchanged")}
            return ReviewRequest(**data | lists)
        except (OSError, ValueError, KeyError, TypeError):
            return None
