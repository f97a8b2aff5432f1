"""What a review rule is, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deepwork.files.globs import Globs
from deepwork.names import Word

RULES_FILE = ".deepreview"


class Strategy(Word):
    """How the files that a rule matches are given to reviewers."""

    INDIVIDUAL = "individual"
    MATCHES_TOGETHER = "matches_together"
    ALL_CHANGED_FILES = "all_changed_files"


class ReviewEvent(Word):
    """What is told of reviews, those of job steps included."""

    FAILED = "review:failed"
    PASSED = "review:passed"


@dataclass(frozen=True)
class Rule:
    """Who must look at which changed files, and for what."""

    name: str
    description: str
    file: str
    """The .deepreview that holds it, relative to the project."""
    line: int
    include: Globs
    exclude: Globs
    strategy: Strategy
    instructions: str
    agents: Mapping[str, str]
    """By platform, the persona that should review."""
    names_all_changed: bool = False
    shows_unchanged: bool = False

    @property
    def folder(self) -> str:
        """What its patterns are relative to: nothing, or a folder with its slash."""
        return self.file.removesuffix(RULES_FILE)

    @property
    def defining_file(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Flaw:
    """Why a rule, or a whole file of them, cannot be used."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Rules:
    """Every rule of a project that can be used, and what is wrong with the others."""

    rules: tuple[Rule, ...]
    flaws: tuple[Flaw, ...]


@dataclass(frozen=True)
class Review:
    """One reviewer's work: these files, under this rule."""

    rule: Rule
    files: tuple[str, ...]
    unchanged: tuple[str, ...] = ()
    """Files that match too and have not changed: what the reviewer may compare with."""

    @property
    def scope(self) -> str:
        """What it looks at, in a few words."""
        if len(self.files) == 1:
            return self.files[0]
        which = "changed " if self.rule.strategy is Strategy.ALL_CHANGED_FILES else ""
        return f"{len(self.files)} {which}files"
