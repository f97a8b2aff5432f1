"""Which files a rule is about, and which reviews that makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deepwork.reviews.models import Flaw, Review, Rule, Rules, Strategy


def matching(rule: Rule, files: Iterable[str]) -> list[str]:
    """The files that the rule is about: below its folder, included and not excluded."""
    folder = rule.folder
    below = [file.removeprefix(folder) for file in files if file.startswith(folder)] if folder else files
    included = rule.include.among(below)
    excluded = set(rule.exclude.among(included))
    return [folder + file for file in included if file not in excluded]


def reviews(rules: Iterable[Rule], changed: Sequence[str], present: Sequence[str]) -> list[Review]:
    """What must be reviewed because these files changed; `present` are all files of the project."""
    return [review for rule in rules for review in _of(rule, changed, present)]


def about(found: Rules, files: Sequence[str]) -> Rules:
    """The rules that match one of the files, and what is wrong in files of rules that could have."""
    ruling = tuple(rule for rule in found.rules if matching(rule, files))
    return Rules(ruling, tuple(flaw for flaw in found.flaws if _could_be_about(flaw, files)))


def _of(rule: Rule, changed: Sequence[str], present: Sequence[str]) -> Iterator[Review]:
    matches = tuple(matching(rule, changed))
    if not matches:
        return
    if rule.strategy is Strategy.ALL_CHANGED_FILES:
        yield Review(rule, tuple(changed))
    elif rule.strategy is Strategy.MATCHES_TOGETHER:
        yield Review(rule, matches, _unchanged(rule, matches, present))
    else:
        yield from (Review(rule, (file,)) for file in matches)


def _unchanged(rule: Rule, changed: tuple[str, ...], present: Sequence[str]) -> tuple[str, ...]:
    if not rule.shows_unchanged:
        return ()
    seen = set(changed)
    return tuple(file for file in matching(rule, present) if file not in seen)


def _could_be_about(flaw: Flaw, files: Sequence[str]) -> bool:
    folder = flaw.file.rpartition("/")[0]
    return any(file.startswith(f"{folder}/" if folder else "") for file in files)
