"""What a reviewer reads: one file for each review, complete in itself, named by what it is about."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER, TMP_FOLDER
from deepwork.errors import InvalidInput, NotFound
from deepwork.files.atomic import write_atomically
from deepwork.files.failures import storage_failure
from deepwork.files.paths import read_confined
from deepwork.files.stamps import speakable, stamp
from deepwork.files.state import make_state_folder
from deepwork.names import as_letters
from deepwork.reviews.discovery import walked
from deepwork.reviews.models import Review

FOLDER = f"{TMP_FOLDER}/review_instructions"

_KEPT_SECONDS = 7 * 24 * 3600
_MAX_SHOWN = 32 * 1024
_MAX_SHOWN_TOGETHER = 256 * 1024
_CHUNK = 2**20
_ID = re.compile(r"rv_[0-9a-z]{12}")
_OURS = re.compile(rf"\.?{_ID.pattern}\.md(\.[0-9a-f]+\.tmp)?")  # also what a crash left half written


@dataclass(frozen=True)
class Instructions:
    """A review as it is handed to somebody."""

    review: Review
    id: str
    path: str
    """The file with the instructions, relative to the project."""


class InstructionFiles:
    """The instructions of a project's reviews, on disk.

    Named by a hash of the rule and of the files under review: servers side by side write the same file for
    the same review, and never take away each other's.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / FOLDER

    def prepare(self, reviews: Iterable[Review]) -> list[Instructions]:
        """Give every review its id and its place; nothing is written yet."""
        marks = _Marks(self._root)
        prepared = ((review, _id(review, marks)) for review in reviews)
        return [Instructions(review, id, f"{FOLDER}/{id}.md") for review, id in prepared]

    def write(self, several: Sequence[Instructions], changed: Sequence[str]) -> None:
        """Write them down, and clear away what nobody can be waiting for."""
        # Without a folder that is set up, git would count the instructions as changes.
        make_state_folder(self._root / STATE_FOLDER)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            recent = self._remove_old()
        except OSError as error:
            raise storage_failure("write", self._folder, error) from error
        for each in several:
            path, content = self._root / each.path, _text(each, changed, self._root).encode()
            if path.name not in recent or not _holds(path, content):
                write_atomically(path, content, is_durable=False)

    def title(self, review_id: str) -> str:
        """What the review is about, by its first line; an error if there is no such review."""
        missing = NotFound("review", review_id, suggestion=_ASK_AGAIN)
        if not _ID.fullmatch(review_id):  # it becomes part of a path here, and nowhere else
            raise missing
        try:
            with open(self._folder / f"{review_id}.md", "rb", opener=_opened_itself) as file:
                return file.readline().decode(errors="replace").removeprefix("# Review: ").strip()
        except OSError:
            raise missing from None

    def _remove_old(self) -> set[str]:
        """Clear away what is old; tell what nobody will clear away soon."""
        now, recent = time.time(), set()
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not _OURS.fullmatch(entry.name):  # whoever has put it there, it is not ours to take away
                    continue
                with suppress(FileNotFoundError):  # another server was faster
                    age = now - entry.stat(follow_symlinks=False).st_mtime
                    if age > _KEPT_SECONDS:
                        Path(entry.path).unlink()
                    elif age < _KEPT_SECONDS / 2:
                        recent.add(entry.name)
        return recent


_ASK_AGAIN = "Call get_review_instructions and use the review_id in the last line of an instructions file."


def shown(path: str) -> str:
    """A file's name as a reader of a list can take it: one that would break the line is quoted."""
    if path.isprintable():  # so are most, and then there is nothing to spell out
        return path
    spoken = speakable(path)
    return spoken if spoken.isprintable() else json.dumps(spoken)


def _holds(path: Path, content: bytes) -> bool:
    """Whether the file says this already."""
    try:
        with open(path, "rb", buffering=0, opener=_opened_itself) as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False


class _Marks(dict[str, bytes]):
    """What stands for a file in an id: its name, and a hash of its content, which is read once."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, file: str) -> bytes:
        content = _hash_of(os.path.join(self._root, file))  # noqa: PTH118 - as fast as can be
        self[file] = _delimited(file) + content
        return self[file]


def _delimited(word: str) -> bytes:
    """The word in such a way that no two words in a row can be taken for two others."""
    encoded = os.fsencode(word)
    return b"%d:%s" % (len(encoded), encoded)


def _hash_of(path: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0, opener=_opened_itself) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except IsADirectoryError:
        digest.update(_tree(path))
    except OSError:  # a link, or out of reach: where it leads is all there is to review
        with suppress(OSError):
            digest.update(os.fsencode(os.readlink(path)))  # noqa: PTH115
    return digest.digest()


def _opened_itself(path: str, flags: int) -> int:
    """Never what a link leads to, and without waiting for whoever would write to a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _tree(path: str) -> bytes:
    """A submodule, which is one path to git: its files by when they last changed, for it may be large."""
    files = sorted(walked(Path(path)))
    return os.fsencode("".join(f"{file}\0{stamp(os.path.join(path, file))}\0" for file in files))  # noqa: PTH118


def _id(review: Review, marks: _Marks) -> str:
    """The same for the same rule over the same files, whatever else has changed in the project."""
    rule = review.rule
    words = (rule.file, rule.name, rule.strategy.value, rule.instructions, str(len(review.files)))
    parts = [*map(_delimited, words), *map(marks.__getitem__, (*review.files, *review.unchanged))]
    return f"rv_{as_letters(hashlib.sha256(b''.join(parts)).digest())}"


def _text(instructions: Instructions, changed: Sequence[str], root: Path) -> str:
    review, rule = instructions.review, instructions.review.rule
    parts = [
        f"# Review: {rule.name} — {shown(review.scope)}",
        f"## Review Instructions\n\n{rule.instructions}",
        "## Files to Review\n\nPaths are relative to the root of the project.\n\n"
        + "\n".join(f"- @{shown(file)}" for file in review.files),
    ]
    if review.unchanged:
        parts.append(_unchanged(review.unchanged, root))
    if rule.names_all_changed:
        parts.append("## All Changed Files\n\n" + "\n".join(f"- {shown(file)}" for file in changed))
    parts.append(_DONE.format(id=instructions.id))
    policy = f"This review was asked for by the policy in {shown(rule.defining_file)}"
    return "\n\n".join([*parts, "---", f"{policy}; review_id: {instructions.id}"]) + "\n"


_DONE = """\
## When You Are Done

Report what must change, each with its file and line. If nothing must change, say PASSED and have
`mark_review_passed` called with the review_id `{id}`: this review is then not asked for again until its rule
or its files change."""


def _unchanged(files: Sequence[str], root: Path) -> str:
    """Files to compare with: listed, and as much of them as fits."""
    room = _MAX_SHOWN_TOGETHER
    parts = ["## Unchanged Matching Files"]
    for file in files:
        text = _content(root, file, min(room, _MAX_SHOWN)) if room else None
        if text is None:
            parts.append(f"- @{shown(file)} (not shown here: read it if you need it)")
        else:
            room -= len(text.encode())
            parts.append(f"- @{shown(file)}\n\n{_fenced(text)}")
    return "\n\n".join(parts)


def _content(root: Path, file: str, room: int) -> str | None:
    """The text of a file, if it is text and there is room for all of it."""
    try:
        text = read_confined(root, file, max_bytes=room).decode()
    except (InvalidInput, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _fenced(text: str) -> str:
    """The text in a fence that nothing in it can close."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"
