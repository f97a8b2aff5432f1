"""From changed files to reviews: what `get_review_instructions` and `deepwork review` both ask."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER
from deepwork.database.transaction import Database
from deepwork.errors import Code, InvalidInput, NotARepository, StorageError
from deepwork.files.stamps import speakable
from deepwork.git.changes import changed_files
from deepwork.git.command import Git
from deepwork.reviews import dispatch, rules
from deepwork.reviews.definitions import RuleShelf
from deepwork.reviews.discovery import RuleFinder, project_files, rule_files
from deepwork.reviews.instructions import InstructionFiles, Instructions, shown
from deepwork.reviews.models import Flaw, Rules
from deepwork.reviews.store import PassedReviews

log = logging.getLogger("deepwork")

_MOST_NAMED = 20
_OURS = f"{STATE_FOLDER}/.gitignore"


@dataclass(frozen=True)
class Docket:
    """What is to be reviewed now, or why nothing is."""

    reviews: tuple[Instructions, ...]
    passed: int
    """How many reviews were left out because they passed before."""
    reason: str
    """Why there is nothing to do; empty when there is."""
    flaws: tuple[Flaw, ...]
    missing: tuple[str, ...]
    """Files that were named but are not there."""
    base: str | None
    """What git compared with; None where the files were named, or before the first commit."""

    def as_text(self, platform: str) -> str:
        """What an agent is told."""
        parts = [*_warnings(self.flaws), *_notes(self.missing)]
        parts.append(self.reason or dispatch.as_text(self.reviews, platform))
        if self.passed and self.reviews:
            parts.append(dispatch.left_out(self.passed))
        return "\n\n".join(parts)


@dataclass(frozen=True)
class _Work:
    """The files of a project, and which of them to review."""

    present: Sequence[str]
    changed: Sequence[str]
    missing: tuple[str, ...] = ()
    base: str | None = None


class ReviewDesk:
    """Finds what must be reviewed and prepares it."""

    def __init__(self, git: Git, database: Database) -> None:
        self._git = git
        self._database = database
        self._shelf = RuleShelf(git.root)
        self._finder = RuleFinder(git)
        self.root = git.root
        self.instructions = InstructionFiles(git.root)

    def rules(self) -> Rules:
        """Every rule of the project."""
        return self._shelf.rules_in(self._finder.files())

    def docket(
        self, files: Sequence[str] | None = None, base_ref: str | None = None, *, again: bool = False
    ) -> Docket:
        """The reviews that these files ask for, or whatever git says has changed.

        Those that passed before on the same content are left out, unless they are wanted `again`.
        """
        work = self._named(files) if files is not None else self._changed(base_ref)
        found = self._shelf.rules_in(rule_files(work.present))
        reviews = rules.reviews(found.rules, work.changed, work.present)
        prepared = self.instructions.prepare(reviews)
        passed = set() if again else self._passed(prepared)
        due = [each for each in prepared if each.id not in passed]
        if due:
            self.instructions.write(due, work.changed)
        left_out = len(prepared) - len(due)
        reason = "" if due else _reason(found, work, left_out)
        return Docket(tuple(due), left_out, reason, found.flaws, work.missing, work.base)

    def _changed(self, base_ref: str | None) -> _Work:
        try:
            changes = changed_files(self._git, base_ref)
        except NotARepository as error:
            raise NotARepository(
                error.message,
                suggestion="Name the files to review, or run `git init` so that changes can be seen.",
            ) from error
        return _Work(_theirs(changes.listing.files), _theirs(changes.files), base=changes.base)

    def _named(self, files: Sequence[str]) -> _Work:
        present = _theirs(project_files(self._git))
        meant = {file: self._meant(file, present) for file in {located(self.root, file) for file in files}}
        missing = sorted(speakable(file) for file, found in meant.items() if not found)
        return _Work(present, sorted({each for found in meant.values() for each in found}), tuple(missing))

    def _meant(self, file: str, present: Sequence[str]) -> Sequence[str]:
        """The file itself; of a folder the files in it; nothing if neither is there."""
        try:
            mode = (self.root / file).lstat().st_mode
        except OSError:
            return ()
        if not stat.S_ISDIR(mode):
            return (file,) if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else ()
        if file in present:  # a submodule
            return (file,)
        return [each for each in present if file == os.curdir or each.startswith(f"{file}/")]

    def _passed(self, prepared: Sequence[Instructions]) -> set[str]:
        if not prepared:
            return set()
        try:
            with self._database.reading() as tx:
                return PassedReviews(tx).among([each.id for each in prepared])
        except StorageError as error:  # at worst a review is made twice
            log.warning("Whether a review passed before cannot be looked up: %s", error)
            return set()


def located(root: Path, file: str) -> str:
    """The file as git would name it: relative to the project, and surely inside."""
    folder, name = os.path.split(os.path.normpath(root / file))  # a link is a file of its own
    path = "" if "\0" in file else os.path.relpath(f"{os.path.realpath(folder)}{os.sep}{name}", root)
    if not file.strip() or not path or path.split(os.sep, 1)[0] == os.pardir:
        raise InvalidInput(
            f"The file {speakable(file)[:200]!r} is not inside the project.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion="Name files inside the project, relative to its root.",
        )
    return path


def _theirs(files: Sequence[str]) -> Sequence[str]:
    """Without the file that we ourselves wrote, maybe only now."""
    return [file for file in files if file != _OURS]


def _reason(found: Rules, work: _Work, passed: int) -> str:
    if not found.rules and not found.flaws:
        return "No .deepreview configuration files found: there is no rule to review by."
    if not found.rules:
        return "No review rule can be used until the files above are mended."
    if not work.changed:
        return f"No changed files detected{f': nothing differs from {work.base}' if work.base else ''}."
    if not passed:
        return "No review rules matched the changed files."
    which = "1 review that applies has" if passed == 1 else f"{passed} reviews that apply have"
    return f"Nothing is left to review: the {which} passed, and the rules and files have not changed since."


def _warnings(flaws: Sequence[Flaw]) -> list[str]:
    if not flaws:
        return []
    more = len(flaws) - _MOST_NAMED
    lines = [f"- {flaw}" for flaw in flaws[:_MOST_NAMED]] + ([f"- and {more} more"] if more > 0 else [])
    return ["\n".join(["Warning: these rules cannot be used and are left out:", *lines])]


def _notes(missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    more = len(missing) - _MOST_NAMED
    names = [shown(file) for file in missing[:_MOST_NAMED]] + ([f"{more} more"] if more > 0 else [])
    return [f"Left out, because no file of this project is there: {', '.join(names)}."]
