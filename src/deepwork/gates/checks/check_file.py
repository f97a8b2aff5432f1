"""The format of `.deepwork/checks.yml`, as pydantic models.

A default here only says that a key may be left out: `definitions.parse_checks` has the values.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from deepwork.kernel.files.definition_models import DefinitionModel, build_problem, require_no_nul
from deepwork.kernel.files.globs import find_problem

_WILDCARDS = frozenset("*?[]{}\\")


def _require_pattern(pattern: str) -> str:
    if problem := find_problem(pattern):
        what, _, remedy = problem.partition("; ")
        raise build_problem(f"the pattern {pattern!a} {what}", remedy or "patterns stay inside the project")
    return pattern


def _require_plain_path(path: str) -> str:
    if find_problem(path) or _WILDCARDS & set(path) or path.endswith("/"):
        raise build_problem(
            f"{path!a} is not the path of a file inside the project",
            "write it relative to the project, such as build/junit.xml",
        )
    return path.removeprefix("./")


_Word = Annotated[str, AfterValidator(require_no_nul), Field(description="Write a word of the command.")]
_Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="A check's name has letters, digits, dots, dashes and underscores.",
    ),
]
_Pattern = Annotated[
    str, AfterValidator(_require_pattern), Field(description='Write a pattern, such as "src/**".')
]


class CheckDefinition(DefinitionModel):
    """Write a mapping with run, and with timeout, needs, junit, not_fewer, retries and clean if needed."""

    run: list[_Word] = Field(
        min_length=1,
        description="Write the command as a list of words, such as [make, test]; no shell reads it.",
    )
    timeout: str = Field(
        "10m",
        pattern=r"^[1-9][0-9]{0,4}[smh]$",
        description="Write a number with s, m or h, such as 90s or 15m; at most 24h.",
    )
    needs: list[_Pattern] = Field(
        [],
        min_length=1,
        description="Write the patterns of all files that it depends on; default: every file of the tree.",
    )
    junit: Annotated[str, AfterValidator(_require_plain_path)] = Field(
        "", description="Write the path of the JUnit report that the command writes."
    )
    not_fewer: bool = Field(
        default=False, description="Whether it must run at least as many tests as at the base; needs junit."
    )
    retries: int = Field(
        0, ge=0, le=10, description="Write how often it may run again after it failed, from 0 to 10."
    )
    clean: bool = Field(
        default=False, description="Whether it runs in a fresh copy of the tree, without ignored files."
    )


class CheckFileDefinition(DefinitionModel):
    """Write a mapping with checks, and with guarded if needed."""

    model_config = ConfigDict(title="The checks of a project (.deepwork/checks.yml)")

    checks: dict[_Name, CheckDefinition] = Field(description="Write a mapping of names to checks.")
    guarded: list[_Pattern] = Field(
        [], description="Write the patterns of files whose changes a person must approve."
    )
