"""Which checks decide that work is done: those of the project, else the tests that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.edge.cli.do.questions import Person
from deepwork.edge.cli.trust import CommittedChecks, load_committed_checks, print_checks, trust_checks
from deepwork.gates.checks.models import CHECKS_FILE
from deepwork.gates.checks.project_tests import FoundTest, find_project_tests, render_checks
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.uncommitted import commit_file
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.kernel.config import Settings
    from deepwork.kernel.git.command import Git

_MESSAGE = "Say what must succeed before work counts as done"
_FLAGS = "`--trust` says yes to them; `--no-checks` goes without."


@dataclass(frozen=True)
class CheckChoice:
    """What the command line said about checks already."""

    trust: bool = False
    without: bool = False


def settle_checks(settings: Settings, git: Git, person: Person, choice: CheckChoice) -> tuple[str, ...]:
    """Return the checks of this project that may run, after a person trusted them; empty: it goes without."""
    if choice.without:
        return ()
    project = settings.repository_root
    checks = load_committed_checks(project, None)
    if not checks.file.checks:
        if not _adopt_tests(project, git, person, choice):
            return ()
        checks = load_committed_checks(project, None)
    elif checks.untrusted:
        _require_trust(checks, person, choice)
    if checks.untrusted:
        trust_checks(settings, checks)
    return tuple(checks.file.checks)


def _require_trust(checks: CommittedChecks, person: Person, choice: CheckChoice) -> None:
    if not person.as_json:
        print_checks(checks)
    if choice.trust or (person.can_answer and not person.yes and person.confirm("Trust these checks?")):
        return
    raise NotAllowed(
        f"Nobody trusted the checks of {CHECKS_FILE} yet, so they do not run and nothing was started.",
        code=Code.CHECKS_NOT_TRUSTED,
        suggestion=f"Read them, then run `deepwork trust` and the same command again. {_FLAGS}",
    )


def _adopt_tests(project: Path, git: Git, person: Person, choice: CheckChoice) -> bool:
    """Make the project's tests its checks, if a person wants that; False if it goes without."""
    found = find_project_tests(project)
    if not _is_own(project / CHECKS_FILE, found):
        raise NotAllowed(
            f"{CHECKS_FILE} is not committed, or has no checks, and only committed checks count.",
            suggestion=f"Commit it: `git add {CHECKS_FILE} && git commit`. {_FLAGS}",
        )
    if not found:
        return _go_without(person)
    shown = ", ".join(f"`{' '.join(test.run)}` ({test.because})" for test in found)
    if choice.trust:
        person.say(f"Checks: {shown}.")
    elif not person.can_answer or person.yes:
        raise NotAllowed(
            f"This project says nowhere what its checks are. It seems to have tests: {shown}.",
            code=Code.CHECKS_NOT_TRUSTED,
            suggestion=f"Write {CHECKS_FILE} and commit it, or let these be it. {_FLAGS}",
        )
    else:
        person.say(f"This project has no {CHECKS_FILE} yet. Its tests: {shown}.")
        question = f"Are these its checks? They will run on this machine, and {CHECKS_FILE} is committed."
        if not person.confirm(question):
            return _go_without(person)
    _commit_checks(project, git, found)
    return True


def _is_own(path: Path, found: Sequence[FoundTest]) -> bool:
    """Whether nothing is there, or what a killed process of ours wrote before it could commit it."""
    return not path.exists() or bool(found and path.read_text(encoding="utf-8") == render_checks(found))


def _go_without(person: Person) -> bool:
    """Let a person say that nothing checks the work."""
    question = "Go on without checks? Then only agents and you look at the work."
    if person.can_answer and not person.yes and person.confirm(question, default=False):
        return False
    raise NotAllowed(
        "Nothing can check the work: the project has no checks, and no tests that are known here.",
        suggestion=f"Name a command that tests it in {CHECKS_FILE}, and commit that; or pass `--no-checks`.",
    )


def _commit_checks(project: Path, git: Git, found: Sequence[FoundTest]) -> None:
    path = project / CHECKS_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(render_checks(found), encoding="utf-8")
    top = find_tree_root(project) or project
    commit_file(git, str(path.relative_to(top)), _MESSAGE)
