"""The format of `.deepreview` files, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, RootModel

from deepwork.gates.reviews.models import ReviewRule, Strategy
from deepwork.gates.reviews.rounds import ReviewPolicy
from deepwork.kernel.files import globs
from deepwork.kernel.files.definition_models import DefinitionModel, OneOf, Text, build_problem
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.files.problems import format_value

_MAX_ROUNDS = 20


def _require_matchable(pattern: str) -> str:
    """Refuse a pattern that can never match; ignoring it would look like a file that needs no review."""
    if problem := globs.find_problem(pattern):
        what, _, remedy = problem.partition("; ")
        raise build_problem(f"the pattern {format_value(pattern)} {what}", remedy)
    return pattern


def _strip_instructions(text: str) -> str:
    if not (stripped := text.strip()):
        raise build_problem("this is empty", "write instructions")
    return stripped


_Pattern = Annotated[
    Text,
    Field(description='A pattern relative to this file\'s folder, such as "src/**/*.py".'),
    AfterValidator(_require_matchable),
]
_RuleName = Annotated[
    str,
    Field(
        min_length=1,
        pattern="^[a-zA-Z0-9_-]+$",
        description="A rule's name has letters, digits, dashes and underscores.",
    ),
]


class MatchDefinition(DefinitionModel):
    """Write which files it covers: a mapping with include, and exclude if needed."""

    include: list[_Pattern] = Field(
        min_length=1, description="A list of patterns; files that match one of them are included."
    )
    exclude: list[_Pattern] = Field(
        [], description="A list of patterns; files that match one of them are excluded."
    )


class InstructionsFile(DefinitionModel):
    """A text file inside the project that holds the instructions."""

    file: Text


class ReviewContext(DefinitionModel):
    """Write what else the reviewer should see: a mapping of flags."""

    all_changed_filenames: bool = Field(
        default=False, description="True to name every changed file, matched or not."
    )
    unchanged_matching_files: bool = Field(
        default=False, description="True to show files that match and did not change; for matches_together."
    )


class RoundsDefinition(DefinitionModel):
    """What a definition of a review can say about its rounds."""

    rounds: int = Field(
        0, ge=1, le=_MAX_ROUNDS, description="How many rounds it may have before a person decides, 1 to 20."
    )
    blocks: list[Literal["blocker", "major", "minor"]] = Field(
        ["blocker", "major"],
        min_length=1,
        description="A list of the severities that send work back: blocker, major, minor.",
    )
    scope: Literal["delta", "whole"] = Field(
        "delta",
        description="delta to show what changed since the round before, whole to show everything again.",
    )
    by: Literal["anyone", "other"] = Field(
        "anyone", description="other if the author's own agent may not review; else anyone."
    )


class ReviewDefinition(RoundsDefinition):
    """Write how to review: a mapping with strategy and instructions."""

    strategy: Literal["individual", "matches_together", "all_changed_files"] = Field(
        description="One of individual, matches_together, all_changed_files."
    )
    instructions: Annotated[
        Annotated[Text, AfterValidator(_strip_instructions)] | InstructionsFile, OneOf()
    ] = Field(
        description="What the reviewer must do: text, or file: and a path relative to this file's folder."
    )
    agent: dict[Annotated[str, Field(min_length=1)], Text] = Field(
        {}, description="By platform, the persona that should review, such as claude: security-expert."
    )
    additional_context: ReviewContext = Field(default_factory=ReviewContext)


class RuleDefinition(DefinitionModel):
    """Write a mapping with description, match and review."""

    description: str = Field(
        min_length=1, max_length=256, description="What the rule is for, at most 256 characters."
    )
    match: MatchDefinition
    review: ReviewDefinition

    def to_rule(self, name: str, file: str, line: int, instructions: str) -> ReviewRule:
        context = self.review.additional_context
        return ReviewRule(
            name=name,
            description=self.description,
            file=file,
            line=line,
            include=Globs(self.match.include),
            exclude=Globs(self.match.exclude),
            strategy=Strategy(self.review.strategy),
            instructions=instructions,
            agents=self.review.agent,
            names_all_changed=context.all_changed_filenames,
            shows_unchanged=context.unchanged_matching_files,
            rounds=self.review.rounds or None,
            policy=ReviewPolicy.parse(self.review.model_dump(exclude_unset=True, exclude={"instructions"})),
        )


class RuleFile(RootModel[dict[_RuleName, RuleDefinition]]):
    """Rules by name: which changed files must be reviewed, how, and by whom."""

    model_config = ConfigDict(
        strict=True, frozen=True, defer_build=True, title="Review rules of deepwork (.deepreview)"
    )
