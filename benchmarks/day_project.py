"""The project of the scripted day: a small shop with a job, review rules and a plan of twelve tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

JOB = "release_notes"
_COMMON_INFO = """\
The shop is released every Tuesday. Customers read the release notes, not the commits: write about what they can
do now, in plain words, without names of modules. Every note links to a page of the manual.
"""
_STEPS = {
    "collect": "Collect what changed since the last release. Read the log and the closed issues, and list each "
    "change that a customer can notice, with the issue it came from. Leave out refactorings and tests.",
    "write": "Write the release notes from the collected changes: one line for each change, the most important "
    "first, and a line that says when the release is available.",
    "announce": "Write down where the notes were published, and to whom they were sent.",
}
_REVIEW = {
    "run_each": "step",
    "quality_criteria": {
        "When": "Do the notes say on which day the release is available?",
        "Plain": "Are the notes written for customers, without names of modules?",
    },
}

# Searches for a word in place of a model.
_REVIEWER = """#!{python}
import json, sys
text = sys.stdin.read().partition("BEGIN OUTPUTS")[2].partition("END OUTPUTS")[0]
is_good = "Tuesday" in text
when = {{"criterion": "When", "passed": is_good, "feedback": None if is_good else "No day is named."}}
plain = {{"criterion": "Plain", "passed": True, "feedback": None}}
feedback = "Both criteria are met." if is_good else "The notes do not say on which day the release is available."
verdict = {{"passed": is_good, "feedback": feedback, "criteria_results": [when, plain]}}
print(json.dumps({{"is_error": False, "structured_output": verdict}}))
"""

_RULES = """\
secrets:
  description: The code contains no passwords, keys or tokens.
  match: {include: ["shop/**/*.py"]}
  review:
    strategy: individual
    instructions: Look for passwords, keys and tokens, also in tests and in default values.

pages:
  description: Every page of the manual begins with a heading and says who it is for.
  match: {include: ["manual/**/*.md"]}
  review:
    strategy: matches_together
    instructions: Each page must begin with a heading. The first paragraph says who the page is for.
"""

REQUEST = """\
Customers want to return what they bought. Let them open a return from the page of an order, choose the items and a
reason, and print a label. The shop checks the return, refunds the money and puts the items back into stock. A
return is possible within 30 days; gift cards cannot be returned. Support must see every return of a customer, with
its history. The mail that confirms a return must not be sent twice. Acceptance: a customer returns one of two
items, gets half of the money back, and the stock is right afterwards.
"""

_BUILD = {
    "page": "The page on which a customer opens a return: choose the items and a reason, see the refund.",
    "store": "Save returns with their items and history; refuse a second return of the same item.",
    "refund": "Refund the money of the returned items through the payment provider, exactly once.",
    "stock": "Put returned items back into stock when the warehouse confirms them.",
    "mail": "Send the mail that confirms a return, with the label as an attachment, never twice.",
    "label": "Create the label as a PDF through the carrier's interface, and store it with the return.",
}
_TESTS = {
    "returning": "Return one of two items in a browser, and check the money and the stock.",
    "limits": "Check the 30 days, gift cards, and items that were returned before.",
    "support": "Check what support sees: every return of a customer with its history.",
}


def build_plan() -> dict[str, Any]:
    """Build the plan: one task first, six and three in parallel, one that joins them, one that writes it up."""
    return {
        "summary": "Customers return items of an order, get their money back, and support sees it.",
        "approach": "Agree on the data first, build the parts side by side behind interfaces, join them, then test.",
        "tasks": [
            _build_task("agree on the data", "What a return is: tables, states, and who may change them.", 1),
            *(
                _build_task(f"build {part}", about, 2, "build", f"shop/{part}/**")
                for part, about in _BUILD.items()
            ),
            _build_task("join the parts", "Connect page, store, refund, stock, mail and label.", 3),
            *(
                _build_task(f"test {part}", about, 4, "test", f"tests/{part}/**")
                for part, about in _TESTS.items()
            ),
            _build_task("write the manual", "A page for customers and a page for support.", 5),
        ],
        "risks": ["The carrier's interface is slow; the label may arrive after the mail."],
    }


def _build_task(
    name: str, description: str, sequence: int, group: str | None = None, files: str | None = None
) -> dict[str, Any]:
    more = {"parallel_group": group, "files_likely_affected": [files]} if group else {}
    return {"name": name, "description": description, "sequence": sequence, **more}


def create_project(project: Path, programs: Path) -> None:
    """Create a repository with the job, the rules and some code, and the reviewer as the program `claude`."""
    _write_job(project / ".deepwork/jobs" / JOB)
    write(project, ".deepreview", _RULES)
    write(
        project, "shop/orders.py", "def total(order):\n    return sum(item.price for item in order.items)\n"
    )
    write(project, "manual/orders.md", "# Orders\n\nFor customers: how to order.\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project, "The shop takes orders")
    programs.mkdir(exist_ok=True)
    reviewer = programs / "claude"
    reviewer.write_text(_REVIEWER.format(python=sys.executable))
    reviewer.chmod(0o755)


def _write_job(folder: Path) -> None:
    steps = []
    for id, does in _STEPS.items():
        write(
            folder, f"steps/{id}.md", f"# {id.title()}\n\n{does}\n\nEnd with the file named under outputs.\n"
        )
        output = {"type": "file", "description": does.partition(".")[0], "required": True}
        steps.append(
            {
                "id": id,
                "name": id.title(),
                "description": does.partition(".")[0],
                "instructions_file": f"steps/{id}.md",
                "outputs": {f"{id}.md": output},
                "reviews": [_REVIEW] if id == "write" else [],
            }
        )
    workflow = {"name": "main", "summary": "Write and announce release notes", "steps": list(_STEPS)}
    definition = {
        "name": JOB,
        "summary": "Release notes that customers read",
        "version": "1.0.0",
        "common_job_info_provided_to_all_steps_at_runtime": _COMMON_INFO,
        "steps": steps,
        "workflows": [workflow],
    }
    write(folder, "job.yml", json.dumps(definition, indent=2))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def commit(project: Path, message: str) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", message)


def git(project: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, timeout=60)
