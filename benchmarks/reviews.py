"""Measures reviews: a repository of 5,000 files, 200 of them changed, and 50 rules."""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.clients import HELLO, RAW, SERVE, StdioClient
from benchmarks.timing import Effort, Samples, Work, measure_ms

PARTS, AREAS = 25, 10
CHANGED, TASKS = 200, 125
INSTRUCTIONS = ".deepwork/tmp/review_instructions"

GIT = "git alone"
REVIEWS, RULES = f"get_review_instructions ({CHANGED})", "get_configured_reviews (50)"
FIRST, AGAIN = f"{REVIEWS}, first", f"{REVIEWS}, again"

# The git commands a review needs. Not imported from the program: it must not change its own yardstick.
QUESTIONS = (
    (
        "for-each-ref",
        "--format=%(refname) %(symref)",
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/main",
        "refs/remotes/origin/master",
        "refs/heads/main",
        "refs/heads/master",
    ),
    ("merge-base", "HEAD", "refs/heads/main"),
    ("diff-index", "--cached", "--name-only", "-z", "--no-renames", "--relative", "refs/heads/main", "--"),
    ("ls-files", "-z", "-t", "--cached", "--modified"),
    ("ls-files", "-z", "--others", "--exclude-standard"),
)

_NAMES = [
    *(f"module_{number}.py" for number in range(12)),
    *(f"test_{number}.py" for number in range(3)),
    "notes_0.md",
    "notes_1.md",
    "view_0.ts",
    "view_1.ts",
    "data.json",
]
_YESTERDAY = time.time() - 24 * 3600


def create_repository(root: Path) -> Path:
    """Create a branch with changes of every kind: committed, staged, unstaged and untracked."""
    for part in range(PARTS):
        for area in range(AREAS):
            for name in _NAMES:
                _write(root / f"src/part_{part}/area_{area}/{name}", f"{part} {area} {name}\n" * 40)
    _write_rules(root)
    _write(root / ".gitignore", ".deepwork/\n")
    _git(root, "init", "--quiet", "--initial-branch=main")
    _commit(root, "All of it")
    _git(root, "switch", "--quiet", "--create", "work")
    _change(root, {0: "module_0.py", 4: "notes_0.md", 6: "view_0.ts"})
    _commit(root, "Some of it, again")
    _change(root, {1: "module_0.py", 5: "notes_0.md"})
    _git(root, "add", "--all")
    _change(root, {2: "module_0.py", 7: "view_0.ts", 3: "module_new.py"})
    return root


def measure_reviews(effort: Effort) -> Samples:
    """Measure reviews call by call, since each takes long; the rows take turns with their floors."""
    folder = effort.make_folder("reviews")
    root = create_repository(folder / "repository")
    with StdioClient(RAW) as raw, StdioClient(*SERVE, str(root)) as caller:
        forget = partial(_put_aside, root / INSTRUCTIONS, folder)
        review = partial(caller.call, "get_review_instructions", {})
        took = {FIRST: [measure_ms(review)]}
        written = len(list((root / INSTRUCTIONS).iterdir()))
        assert written == TASKS, f"{written} reviews instead of {TASKS}"
        rules = partial(caller.call, "get_configured_reviews", {})
        work: dict[str, Work] = {"raw call": partial(raw.call, *HELLO), RULES: rules}
        work |= {GIT: partial(_run_git_queries, root), REVIEWS: review, AGAIN: review}
        for number in range(effort.rounds + 3):
            for name, call in work.items():
                if name == REVIEWS:
                    forget()
                spent = measure_ms(call)
                if number >= 3:  # the first rounds warm up
                    took.setdefault(name, []).append(spent)
    return took


def _put_aside(instructions: Path, folder: Path) -> None:
    """Move the instructions away, so that every review is written again.

    They are not deleted: for five minutes after deleting many files, ext4 takes ten times as long to create new
    ones. For the same reason a second run right after the first is slower.
    """
    instructions.rename(folder / f"aside-{time.monotonic_ns()}")


def _run_git_queries(root: Path) -> None:
    for question in QUESTIONS:
        subprocess.run(["git", *question], cwd=root, check=True, capture_output=True)


def _write_rules(root: Path) -> None:
    """Write one rule for single files per part, and 25 rules for the whole project."""
    for part in range(PARTS):
        own = _build_rule("individual", ["area_*/*.py"], exclude=["**/test_*.py"])
        _write(root / f"src/part_{part}/.deepreview", json.dumps({f"part_{part}": own}, indent=1))
    rules = {}
    for number in range(10):
        rules[f"notes_{number}"] = _build_rule("matches_together", [f"src/part_{number}*/**/*.{{md,ts}}"])
        rules[f"all_{number}"] = _build_rule("all_changed_files", [f"**/part_{number}/**/module_*.py"])
    for number in range(5):
        context = {"all_changed_filenames": True, "unchanged_matching_files": True}
        rules[f"area_{number}"] = _build_rule(
            "matches_together", [f"src/part_{number}/area_0/**"], additional_context=context
        )
    _write(root / ".deepreview", json.dumps(rules, indent=1))


def _build_rule(strategy: str, include: list[str], exclude: list[str] | None = None, **more: Any) -> Any:
    match = {"include": include, "exclude": exclude or []}
    review = {"strategy": strategy, "instructions": "Look at every line of it.\n" * 20, **more}
    return {"description": "what is to be measured", "match": match, "review": review}


def _change(root: Path, names: dict[int, str]) -> None:
    for part in range(PARTS):
        for area, name in names.items():
            _write(root / f"src/part_{part}/area_{area}/{name}", f"changed {part} {area} {name}\n" * 40)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (_YESTERDAY, _YESTERDAY))  # git reads the content of files that are as new as its index


def _commit(root: Path, message: str) -> None:
    _git(root, "add", "--all")
    _git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", message)


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, stdout=subprocess.DEVNULL)
