"""On random repositories with random rules, the reviews are those that brute force finds."""

from __future__ import annotations

import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from application import make_app
from reviews.make import ReviewProject, make_project, make_rule_data

FOLDERS = ["", "src/", "src/core/", "docs/", "é x/"]
FILES = [f"{folder}{name}" for folder in FOLDERS for name in ("a.py", "b.py", "b.md", "Makefile")]

Made = tuple[str, str, tuple[str, ...], tuple[str, ...]]  # whose, called what, over which files, beside which


class State(NamedTuple):
    """What somebody has done to the files."""

    on_main: frozenset[str]
    committed: frozenset[str]
    staged: frozenset[str]
    written: frozenset[str]
    deleted: frozenset[str]

    @property
    def present(self) -> list[str]:
        return sorted((self.on_main | self.committed | self.staged | self.written) - self.deleted)

    @property
    def changed(self) -> list[str]:
        return sorted((self.committed | self.staged | self.written) - self.deleted)


segments = some.sampled_from(["src", "core", "*", "**", "*.py", "?.py", "b.*", "a.py", "docs", "M*", "é x"])
patterns = some.lists(segments, min_size=1, max_size=3).map("/".join)
subsets = some.frozensets(some.sampled_from(FILES), max_size=6)
states = some.builds(State, subsets, subsets, subsets, subsets, subsets)
rules = some.builds(
    lambda include, exclude, strategy, shows: make_rule_data(
        *include, exclude=exclude, strategy=strategy, additional_context={"unchanged_matching_files": shows}
    ),
    some.lists(patterns, min_size=1, max_size=2),
    some.lists(patterns, max_size=2),
    some.sampled_from(["individual", "matches_together", "all_changed_files"]),
    some.booleans(),
)
rule_files = some.dictionaries(
    some.sampled_from(["", "src/", "é x/"]), some.fixed_dictionaries({"one": rules, "two": rules}), max_size=2
)


# Shrinking would take minutes: every attempt is a repository.
@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(states, rule_files)
def test_reviews_match_a_brute_force_search(state: State, written: dict[str, Any]):
    with tempfile.TemporaryDirectory(prefix="deepwork-reviews-") as folder:
        project = make_project_in_state(Path(folder) / "project", state, written)
        app = make_app(project.root, f"{folder}/deepwork.db")
        plan = app.reviews.planner.plan()
        app.close()
    made = [
        (each.review.rule.file, each.review.rule.name, each.review.files, each.review.unchanged)
        for each in plan.reviews
    ]

    assert made == find_expected(state, written)


def make_project_in_state(root: Path, state: State, written: dict[str, Any]) -> ReviewProject:
    project = make_project(root)
    for folder, several in written.items():
        project.write_rules(folder, **several)
    project.commit(*state.on_main, content="on main\n")
    project.git("branch", "-f", "main")
    project.commit(*state.committed, content="committed\n")
    if state.staged:
        project.stage(*state.staged, content="staged\n")
    project.write(*state.written, content="written\n")
    for file in state.deleted:
        (root / file).unlink(missing_ok=True)
    return project


def find_expected(state: State, written: dict[str, Any]) -> list[Made]:
    """Every rule, deepest folder first, asked about every file."""
    holders = sorted(written, key=lambda folder: (-folder.count("/"), folder))
    present = [*state.present, *(f"{folder}.deepreview" for folder in written)]
    return [
        made
        for folder in holders
        for name, rule in written[folder].items()
        for made in find_expected_of_rule(folder, name, rule, state.changed, sorted(present))
    ]


def find_expected_of_rule(
    folder: str, name: str, rule: Any, changed: list[str], present: list[str]
) -> list[Made]:
    whose, review = f"{folder}.deepreview", rule["review"]
    matches = [file for file in changed if matches_rule(rule, folder, file)]
    if not matches:
        return []
    if review["strategy"] == "individual":
        return [(whose, name, (file,), ()) for file in matches]
    if review["strategy"] == "all_changed_files":
        return [(whose, name, tuple(changed), ())]
    beside = [file for file in present if matches_rule(rule, folder, file) and file not in changed]
    return [
        (
            whose,
            name,
            tuple(matches),
            tuple(beside) if review["additional_context"]["unchanged_matching_files"] else (),
        )
    ]


def matches_rule(rule: Any, folder: str, file: str) -> bool:
    if not file.startswith(folder):
        return False
    parts = file.removeprefix(folder).split("/")
    include, exclude = rule["match"]["include"], rule["match"]["exclude"]
    return any(matches_pattern(p.split("/"), parts) for p in include) and not any(
        matches_pattern(p.split("/"), parts) for p in exclude
    )


def matches_pattern(pattern: list[str], parts: list[str]) -> bool:
    """The naive way: name by name."""
    if not pattern:
        return not parts
    first, *rest = pattern
    if first == "**":
        least = 0 if rest else 1  # at the end it means everything below, and there is something below
        return any(matches_pattern(rest, parts[taken:]) for taken in range(least, len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and matches_pattern(rest, parts[1:])
