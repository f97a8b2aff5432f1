"""A wish, what may be wrong with its plan, and what its final review found."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

MAX_WISH: Final = 100_000
"""Characters of a wish: more than that is no wish, and no prompt either."""
MAX_FINDINGS: Final = 5
"""How many findings of a review become tasks: more than that is another wish."""
BRANCH_PREFIX: Final = "deepwork/integration/"
PLAN_VARIABLE: Final = "DEEPWORK_PLAN"
"""The variable that names the file in which a planner without our tools writes its plan."""
VERDICT_VARIABLE: Final = "DEEPWORK_VERDICT"
"""The variable that names the file in which a reviewer may write its verdict."""
_MAX_NAME, _MAX_SLUG_WORDS, _MAX_SLUG = 80, 6, 40
_MAX_TITLE, _MAX_TEXT = 100, 4_000
_ACCEPTANCE_PATTERN = re.compile(
    r"^[\s*_#>-]*(?:done when|acceptance)\b[\s*_:]*(.*)", re.IGNORECASE | re.MULTILINE
)
_SMALL_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "in",
        "into",
        "is",
        "it",
        "let",
        "of",
        "on",
        "or",
        "so",
        "that",
        "the",
        "to",
        "we",
        "with",
    ]
)


class WishSource(CaseInsensitiveEnum):
    """Where a wish comes from."""

    SENTENCE = "sentence"
    STDIN = "stdin"
    FILE = "file"
    PLAN = "plan"
    ISSUE = "issue"


class WishEvent(CaseInsensitiveEnum):
    """Event types of wishes; the payload is the wish as REST shows it."""

    CREATED = "wish:created"
    UPDATED = "wish:updated"


class WishRole(CaseInsensitiveEnum):
    """What an agent is that works for a wish, and changes no file."""

    PLANNER = "planner"
    REVIEWER = "reviewer"


@dataclass(frozen=True)
class WishOptions:
    """What a person chose; the settings say the rest. Stored with the wish."""

    planner: str | None = None
    """The profile that plans; None: the first that works."""
    reviewer: str | None = None
    """The profile that reviews in the end; None: those that work."""
    agents: tuple[str, ...] = ()
    chain: str | None = None
    parallel: int = 2
    max_usd: float | None = None
    checks: tuple[str, ...] = ()
    """The checks of each task that names none."""
    review: bool = True


@dataclass(frozen=True)
class WishFinding:
    """What a review found wrong."""

    title: str
    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """What a person wants done; times are Unix milliseconds."""

    id: str
    name: str
    text: str
    source: WishSource
    source_ref: str | None
    repository_path: str
    plan_id: str
    planning_id: str | None
    """The plan with the one task of planning; None if the plan was finished already."""
    branch: str
    """The branch that the work lands on."""
    options: WishOptions
    created_by: str
    created_at: int
    updated_at: int
    returned_plan: str | None = None
    """What was wrong with the plan that went back to the planner."""
    started_at: int | None = None
    """When a person let the work begin."""
    review_tasks: tuple[str, ...] = ()
    """The tasks of its final reviews, in the order of their rounds."""
    findings: tuple[WishFinding, ...] = ()
    """What the last review found."""

    @property
    def is_foreign(self) -> bool:
        """Whether others may have written it: then it is quoted for agents."""
        return self.source is not WishSource.SENTENCE

    def find_role(self, workflow_id: str | None, task_id: str) -> WishRole | None:
        """Return what an agent is that works on this task; None: an agent like any other."""
        if workflow_id is not None and workflow_id == self.planning_id:
            return WishRole.PLANNER
        return WishRole.REVIEWER if task_id in self.review_tasks else None


# Names


def name_wish(text: str) -> str:
    """Return the first line of a wish, as a name."""
    lines = [line.strip(" #*\t") for line in text.splitlines()]
    first = " ".join(next((line for line in lines if line), "wish").split())
    return first if len(first) <= _MAX_NAME else f"{first[: _MAX_NAME - 1].rstrip()}…"


def build_slug(name: str) -> str:
    """Return a short name for a branch, of the words that matter."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    kept = [word for word in words if word not in _SMALL_WORDS] or words
    slug = ""
    for word in kept[:_MAX_SLUG_WORDS]:
        longer = f"{slug}-{word}" if slug else word[:_MAX_SLUG]
        if len(longer) > _MAX_SLUG:
            break
        slug = longer
    return slug or "wish"


# The plan


def find_weaknesses(plan: Mapping[str, Any]) -> list[str]:
    """List what is weak in a plan, for its planner; tools refuse what is wrong in other ways.

    What checks a task is not asked for: one that names no check gets all of the project, if it has any.
    """
    tasks = plan.get("tasks") or []
    if not tasks:
        return ["The plan has no task."]
    return [
        f"Task {task.get('name', '')!r} {problem}."
        for task in tasks
        for problem in _find_task_weaknesses(task)
    ]


def _find_task_weaknesses(task: Mapping[str, Any]) -> list[str]:
    description = str(task.get("description") or "")
    found = []
    if not _ACCEPTANCE_PATTERN.sub("", description).strip():
        found.append("has no goal: begin its description with what it is for")
    accepted = [match[1].strip() for match in _ACCEPTANCE_PATTERN.finditer(description)]
    after = _ACCEPTANCE_PATTERN.split(description)[-1].strip() if accepted else ""
    if not any(accepted) and not after:
        found.append("says nowhere when it is done: end its description with a line `Done when: …`")
    if not task.get("files_likely_affected") and task.get("changes") != "none":
        found.append("names no files: give files_likely_affected")
    return found


def find_object(text: str, key: str) -> dict[str, Any] | None:
    """Return the JSON object with this key that a text is, perhaps with words or a code fence around it."""
    begin, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[begin : end + 1]) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and key in value else None


# The review


def parse_verdict(text: str) -> tuple[WishFinding, ...] | None:
    """Read what a reviewer found from the JSON object that ends its message; None if there is none."""
    value = find_object(text, "findings")
    if value is None or not isinstance(value["findings"], list):
        return None
    found = [_read_finding(each) for each in value["findings"]]
    return tuple(found) if all(found) else None  # type: ignore[arg-type]


def _read_finding(given: object) -> WishFinding | None:
    if not isinstance(given, dict):
        return None
    title = " ".join(str(given.get("title") or "").split())[:_MAX_TITLE]
    files = given.get("files")
    named = [each for each in files if isinstance(each, str)] if isinstance(files, list) else []
    return WishFinding(title, str(given.get("text") or "")[:_MAX_TEXT], tuple(named[:20])) if title else None
