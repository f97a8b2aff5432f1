"""Plans the reviews of changed files, for `get_review_instructions` and `deepwork review`."""

from __future__ import annotations

import logging
import os
import stat
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

from deepwork.gates.reviews import rendering, rules
from deepwork.gates.reviews.discovery import RuleCatalog, RuleFinder, filter_rule_files, list_project_files
from deepwork.gates.reviews.instructions import (
    InstructionFiles,
    PreparedReview,
    RequestFiles,
    ReviewRequest,
    format_path,
)
from deepwork.gates.reviews.models import Review, RuleSet
from deepwork.gates.reviews.round_trees import RoundTrees
from deepwork.gates.reviews.rounds import DEFAULT_ROUNDS, PersonReason
from deepwork.gates.reviews.rule_rounds import RuleRounds
from deepwork.gates.reviews.store import PassedReviews, RoundStore, Series
from deepwork.kernel.call import LOCAL
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, InvalidInput, NotARepository, NotFound, StorageError
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.files.problems import FileProblem
from deepwork.kernel.git.changes import find_changed_files
from deepwork.kernel.git.command import Git
from deepwork.kernel.records import dataclass

log = logging.getLogger("deepwork")

_MAX_LISTED = 20
_OWN_GITIGNORE = f"{STATE_FOLDER}/.gitignore"


@dataclass(frozen=True)
class StuckReview:
    """A review that ended without passing: a person decides about it."""

    review: PreparedReview
    reason: PersonReason


@dataclass(frozen=True)
class ReviewPlan:
    """The reviews to do now, or the reason why there are none."""

    reviews: tuple[PreparedReview, ...]
    passed: int
    """How many reviews were left out because they passed before."""
    reason: str
    """Why there is nothing to review; empty if there is."""
    problems: tuple[FileProblem, ...]
    missing: tuple[str, ...]
    """Requested files that do not exist."""
    base: str | None
    """The commit git compared with; None for an explicit list of files and before the first commit."""
    later: int = 0
    """How many reviews are due besides these; they are planned once these have passed."""
    stuck: tuple[StuckReview, ...] = ()
    """Reviews about which a person must decide first."""

    def render(self, platform: str) -> str:
        """Render the plan as text for an agent."""
        parts = [*_format_problems(self.problems), *_format_missing(self.missing)]
        parts.extend(_format_stuck(self.stuck))
        parts.append(self.reason or rendering.render_tasks(self.reviews, platform))
        if self.later:
            parts.append(rendering.format_later_count(self.later))
        if self.passed and self.reviews:
            parts.append(rendering.format_passed_count(self.passed))
        return "\n\n".join(parts)


@dataclass(frozen=True)
class _FileSelection:
    """All files of the project, and those to review."""

    present: Sequence[str]
    changed: Sequence[str]
    missing: tuple[str, ...] = ()
    base: str | None = None


class ReviewPlanner:
    """Finds the reviews that are due and writes their instructions."""

    def __init__(self, git: Git, database: Database, max_rounds: int = DEFAULT_ROUNDS) -> None:
        self._git, self._max_rounds = git, max_rounds
        self._trees = RoundTrees(git.root, git.root / TMP_FOLDER)
        self._database = database
        self._catalog = RuleCatalog(git.root)
        self._finder = RuleFinder(git)
        self.root = git.root
        self.instructions = InstructionFiles(git.root)
        self.requests = RequestFiles(git.root)

    def load_rules(self) -> RuleSet:
        """Load every rule of the project."""
        return self._catalog.load_rules(self._finder.find_files())

    def plan(
        self,
        files: Sequence[str] | None = None,
        base_ref: str | None = None,
        *,
        again: bool = False,
        is_cut: bool = False,
        asked_by: str = LOCAL,
    ) -> ReviewPlan:
        """Plan the reviews of these files, or by default of the files that git reports as changed.

        Reviews that already passed on the same content are left out unless `again` is set. With `is_cut`,
        only as many are planned as fit into an answer.
        """
        selection = self._select_named(files) if files is not None else self._select_changed(base_ref)
        found = self._catalog.load_rules(filter_rule_files(selection.present))
        reviews = rules.build_reviews(found.rules, selection.changed, selection.present)
        prepared = self.instructions.prepare(reviews)
        passed = set() if again else self._find_passed(prepared)
        waiting = [each for each in prepared if each.id not in passed]
        left_out = len(prepared) - len(waiting)
        rounds = self.load_rounds() if waiting else self.build_rounds({})
        stuck = _find_stuck(waiting, rounds)
        ids = {each.review.id for each in stuck}
        open_ = [each for each in waiting if each.id not in ids]
        due = rendering.cut_reviews(open_) if is_cut else open_
        if due:
            self.instructions.write(due, selection.changed, rounds)
            self.requests.write([(each.id, each.review) for each in due], asked_by)
        reason = "" if due else _explain_empty_plan(found, selection, left_out, len(stuck))
        return ReviewPlan(
            tuple(due),
            left_out,
            reason,
            found.problems,
            selection.missing,
            selection.base,
            len(open_) - len(due),
            tuple(stuck),
        )

    def load_rounds(self) -> RuleRounds:
        """Load the rounds of the rules of this project."""
        try:
            with self._database.reading() as tx:
                return self.build_rounds(RoundStore(tx, self.project).list_series())
        except StorageError as error:  # at worst a round is not counted
            log.warning("Cannot look up the rounds of reviews: %s", error)
            return self.build_rounds({})

    def get_requested(self, review_id: str) -> tuple[Review, ReviewRequest]:
        """Return what was asked to be reviewed; raises NotFound if that is unknown, or its rule is gone.

        Who may pass it depends on its rule and its rounds, so nobody passes what they are unknown of.
        """
        request = self.requests.load(review_id)
        rules = self._catalog.load_rules([request.rule_file]).rules if request else ()
        rule = next((each for each in rules if request and each.name == request.rule_name), None)
        if request is None or rule is None or not request.files:
            raise NotFound(
                "review",
                review_id,
                suggestion="Ask again which reviews are due: {tool:get_review_instructions}.",
            )
        return Review(rule, request.files, request.unchanged), request

    @property
    def project(self) -> str:
        """The subject of the rounds of this project."""
        return str(self.root)

    def build_rounds(self, series: Mapping[str, Series]) -> RuleRounds:
        """Build the rounds of the rules of this project from what is stored."""
        return RuleRounds(self._trees, series, self._max_rounds)

    def _select_changed(self, base_ref: str | None) -> _FileSelection:
        try:
            changes = find_changed_files(self._git, base_ref)
        except NotARepository as error:
            raise NotARepository(
                error.message,
                suggestion="Name the files to review, or run `git init` so that changes can be detected.",
            ) from error
        return _FileSelection(
            _exclude_own_file(changes.listing.files), _exclude_own_file(changes.files), base=changes.base
        )

    def _select_named(self, files: Sequence[str]) -> _FileSelection:
        present = sorted(_exclude_own_file(list_project_files(self._git)))
        expanded = {
            file: self._expand_path(file, present)
            for file in {resolve_path(self.root, file) for file in files}
        }
        missing = sorted(to_printable_name(file) for file, found in expanded.items() if not found)
        return _FileSelection(
            present, sorted({each for found in expanded.values() for each in found}), tuple(missing)
        )

    def _expand_path(self, file: str, present: Sequence[str]) -> Sequence[str]:
        """Return the file itself, the files of a folder, or nothing if the path does not exist.

        `present` is sorted, so that the files of a folder are next to each other.
        """
        try:
            mode = (self.root / file).lstat().st_mode
        except OSError:
            return ()
        if not stat.S_ISDIR(mode):
            return (file,) if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else ()
        if file == os.curdir:
            return present
        first = bisect_left(present, file)
        if first < len(present) and present[first] == file:  # a submodule
            return (file,)
        return present[bisect_left(present, f"{file}/") : bisect_left(present, f"{file}0")]  # 0 follows /

    def _find_passed(self, prepared: Sequence[PreparedReview]) -> set[str]:
        if not prepared:
            return set()
        try:
            with self._database.reading() as tx:
                return PassedReviews(tx).find_passed([each.id for each in prepared])
        except StorageError as error:  # at worst a review is done twice
            log.warning("Cannot look up whether a review already passed: %s", error)
            return set()


def resolve_path(root: Path, file: str) -> str:
    """Return the path as git names it, relative to the project; refuse a path outside of it."""
    folder, name = os.path.split(os.path.normpath(root / file))  # a symbolic link is not followed
    path = "" if "\0" in file else os.path.relpath(f"{os.path.realpath(folder)}{os.sep}{name}", root)
    if not file.strip() or not path or path.split(os.sep, 1)[0] == os.pardir:
        raise InvalidInput(
            f"The file {to_printable_name(file)[:200]!r} is not inside the project.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion="Name files inside the project, relative to its root.",
        )
    return path


def _exclude_own_file(files: Sequence[str]) -> Sequence[str]:
    """Drop the .gitignore that deepwork writes itself, possibly during this very call."""
    return [file for file in files if file != _OWN_GITIGNORE]


def _find_stuck(waiting: Sequence[PreparedReview], rounds: RuleRounds) -> list[StuckReview]:
    found = ((each, rounds.find_person_reason(each.review)) for each in waiting if rounds.series)
    return [StuckReview(each, reason) for each, reason in found if reason]


def _format_stuck(stuck: Sequence[StuckReview]) -> list[str]:
    if not stuck:
        return []
    lines = [
        f"- {each.review.id}: {each.review.review.rule.name} review of "
        f"{format_path(each.review.review.scope)} ({each.reason.value.replace('_', ' ')})"
        for each in stuck[:_MAX_LISTED]
    ]
    more = [f"- and {len(stuck) - _MAX_LISTED} more"] if len(stuck) > _MAX_LISTED else []
    heading = (
        "These reviews wait for a person, who decides with `deepwork review pass`, `send-back` or "
        "`grant-round`; do not review them again:"
    )
    return ["\n".join([heading, *lines, *more])]


def _explain_empty_plan(found: RuleSet, selection: _FileSelection, passed: int, stuck: int) -> str:
    if not found.rules and not found.problems:
        return "No .deepreview configuration files found: there are no review rules."
    if not found.rules:
        return "No review rule can be used until the files above are fixed."
    if not selection.changed:
        base = f": nothing differs from {selection.base}" if selection.base else ""
        return f"No changed files detected{base}."
    if stuck:
        return "Nothing else is to be reviewed now."
    if not passed:
        return "No review rules matched the changed files."
    which = "1 review that applies has" if passed == 1 else f"{passed} reviews that apply have"
    return f"Nothing is left to review: the {which} passed, and the rules and files have not changed since."


def _format_problems(problems: Sequence[FileProblem]) -> list[str]:
    if not problems:
        return []
    more = len(problems) - _MAX_LISTED
    lines = [f"- {problem}" for problem in problems[:_MAX_LISTED]] + (
        [f"- and {more} more"] if more > 0 else []
    )
    return ["\n".join(["Warning: these rules cannot be used and are left out:", *lines])]


def _format_missing(missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    more = len(missing) - _MAX_LISTED
    names = [format_path(file) for file in missing[:_MAX_LISTED]] + ([f"{more} more"] if more > 0 else [])
    return [f"Left out, because they do not exist in this project: {', '.join(names)}."]
