"""Review rules, their problems, and the reviews that result from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from deepwork.gates.reviews.rounds import ReviewPolicy
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.files.problems import FileProblem
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

RULES_FILE = ".deepreview"


class Strategy(CaseInsensitiveEnum):
    """How the files that a rule matches are divided among reviewers."""

    INDIVIDUAL = "individual"
    MATCHES_TOGETHER = "matches_together"
    ALL_CHANGED_FILES = "all_changed_files"


class ReviewEvent(CaseInsensitiveEnum):
    """Events about reviews, including those of job steps."""

    FAILED = "review:failed"
    PASSED = "review:passed"


@dataclass(frozen=True)
class ReviewRule:
    """Which changed files need a review, and its instructions."""

    name: str
    description: str
    file: str
    """The `.deepreview` that defines it, relative to the project."""
    line: int
    include: Globs
    exclude: Globs
    strategy: Strategy
    instructions: str
    agents: Mapping[str, str]
    """The reviewing subagent, by platform."""
    names_all_changed: bool = False
    shows_unchanged: bool = False
    rounds: int | None = None
    """How many rounds it may have before a person decides; None for the setting of the project."""
    policy: ReviewPolicy = field(default_factory=ReviewPolicy)

    def build_policy(self, default_rounds: int) -> ReviewPolicy:
        """Return when its reviews end."""
        return replace(self.policy, rounds=self.rounds or default_rounds)

    @property
    def folder(self) -> str:
        """The folder its patterns are relative to: empty, or a path that ends with a slash."""
        return self.file.removesuffix(RULES_FILE)

    @property
    def defining_file(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class RuleSet:
    """The usable rules of a project, and the problems of the others."""

    rules: tuple[ReviewRule, ...]
    problems: tuple[FileProblem, ...]


@dataclass(frozen=True)
class Review:
    """One reviewer's work: these files, under this rule."""

    rule: ReviewRule
    files: tuple[str, ...]
    unchanged: tuple[str, ...] = ()
    """Unchanged files that match too, for comparison."""

    @property
    def scope(self) -> str:
        """The file, or how many files, for a title."""
        if len(self.files) == 1:
            return self.files[0]
        which = "changed " if self.rule.strategy is Strategy.ALL_CHANGED_FILES else ""
        return f"{len(self.files)} {which}files"
