"""Matches files against review rules and builds the reviews."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deepwork.gates.reviews.models import Review, ReviewRule, RuleSet, Strategy
from deepwork.kernel.files.problems import FileProblem


def find_matches(rule: ReviewRule, files: Iterable[str]) -> list[str]:
    """Return the files that the rule matches: below its folder, included and not excluded."""
    folder = rule.folder
    below = [file.removeprefix(folder) for file in files if file.startswith(folder)] if folder else files
    included = rule.include.filter(below)
    excluded = set(rule.exclude.filter(included))
    return [folder + file for file in included if file not in excluded]


def build_reviews(
    rules: Iterable[ReviewRule], changed: Sequence[str], present: Sequence[str]
) -> list[Review]:
    """Build the reviews for these changed files; `present` are all files of the project."""
    return [review for rule in rules for review in _build_rule_reviews(rule, changed, present)]


def filter_rules(found: RuleSet, files: Sequence[str]) -> RuleSet:
    """Keep the rules that match one of the files, and the problems of rule files that could match one."""
    ruling = tuple(rule for rule in found.rules if find_matches(rule, files))
    return RuleSet(ruling, tuple(problem for problem in found.problems if _may_concern(problem, files)))


def _build_rule_reviews(rule: ReviewRule, changed: Sequence[str], present: Sequence[str]) -> Iterator[Review]:
    matches = tuple(find_matches(rule, changed))
    if not matches:
        return
    if rule.strategy is Strategy.ALL_CHANGED_FILES:
        yield Review(rule, tuple(changed))
    elif rule.strategy is Strategy.MATCHES_TOGETHER:
        yield Review(rule, matches, _find_unchanged(rule, matches, present))
    else:
        yield from (Review(rule, (file,)) for file in matches)


def _find_unchanged(rule: ReviewRule, changed: tuple[str, ...], present: Sequence[str]) -> tuple[str, ...]:
    if not rule.shows_unchanged:
        return ()
    seen = set(changed)
    return tuple(file for file in find_matches(rule, present) if file not in seen)


def _may_concern(problem: FileProblem, files: Sequence[str]) -> bool:
    folder = problem.file.rpartition("/")[0]
    return any(file.startswith(f"{folder}/" if folder else "") for file in files)
