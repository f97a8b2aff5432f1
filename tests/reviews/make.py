"""Projects with review rules and changes in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from deepwork.gates.reviews.discovery import RuleCatalog
from deepwork.gates.reviews.models import ReviewRule, RuleSet, Strategy
from deepwork.kernel.files.globs import Globs
from git.changes_project import Project, create_project

FOLDER = ".deepwork/tmp/review_instructions"

_TASK = re.compile(
    r'^name: (".*")\n\tdescription: (.*)\n\tsubagent_type: (.*)\n\tprompt: (".*")$', re.MULTILINE
)


class ReviewProject(Project):
    """A directory with rules in it."""

    def write_rules(self, folder: str = "", /, **rules: Any) -> None:
        """Write a `.deepreview`."""
        path = self.root / folder / ".deepreview"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rules, indent=1))  # JSON is YAML too


def make_project(root: Path, **rules: Any) -> ReviewProject:
    """A repository with these rules committed on main, and a branch `work` on which nothing has changed."""
    create_project(root)
    project = ReviewProject(root)
    if rules:
        project.write_rules(**rules)
    project.commit()
    project.git("switch", "-q", "-c", "work")
    return project


def make_rule_data(
    *include: str, strategy: str = "individual", instructions: Any = "Look.", **more: Any
) -> Any:
    """A rule as it is written; whatever is not named is as ordinary as can be."""
    exclude = {"exclude": more.pop("exclude")} if "exclude" in more else {}
    return {
        "description": more.pop("description", "What the rule is for."),
        "match": {"include": list(include or ("**",)), **exclude},
        "review": {"strategy": strategy, "instructions": instructions, **more},
    }


def make_rule(*include: str, folder: str = "", strategy: str = "individual", **more: Any) -> ReviewRule:
    """A rule as it was read."""
    return ReviewRule(
        name=more.pop("name", "rule"), description="What it is for.", file=f"{folder}.deepreview", line=1,
        include=Globs(include or ("**",)), exclude=Globs(more.pop("exclude", ())), strategy=Strategy(strategy),
        instructions="Look.", agents=more.pop("agents", {}), **more,
    )  # fmt: skip


def load_rules(root: Path, *files: str) -> RuleSet:
    """What these files define."""
    return RuleCatalog(root).load_rules(files or [".deepreview"])


def parse_tasks(text: str) -> list[dict[str, str]]:
    """The tasks in an answer for Claude."""
    return [
        {"name": json.loads(name), "description": about, "subagent_type": kind, "prompt": json.loads(prompt)}
        for name, about, kind, prompt in _TASK.findall(text)
    ]


def parse_names(text: str) -> list[str]:
    return [task["name"] for task in parse_tasks(text)]


def parse_ids(text: str) -> list[str]:
    """The reviews in an answer."""
    return [Path(task["prompt"]).stem for task in parse_tasks(text)]


def read_instructions(root: Path, text: str) -> list[str]:
    """What the reviewers in an answer will read."""
    return [(root / task["prompt"].removeprefix("@")).read_text() for task in parse_tasks(text)]
