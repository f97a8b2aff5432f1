"""Reads the checks of a project from a commit, never from files that an agent can edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from deepwork.gates.checks.models import (
    ALWAYS_GUARDED,
    CHECKS_FILE,
    DEFAULT_TIMEOUT_SECONDS,
    Check,
    CheckFile,
    CommitProofRequest,
    ProofRequest,
)
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.private import find_hidden_checks
from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, FileProblem, InvalidDefinition
from deepwork.kernel.files.yaml import YamlDocument, load_yaml
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.exact_files import read_committed_file
from deepwork.kernel.git.refs import read_commits

_MAX_SECONDS = 24 * 3600
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_COMMIT_FIRST = f"Commit {CHECKS_FILE} with this check first, then call again."


class CheckDefinitions:
    """The checks of one project, by the commit that they are read from; a commit never changes."""

    def __init__(self, project_prefix: Path) -> None:
        """`project_prefix` is the project's folder, relative to the root of its repository."""
        self._file = (project_prefix / CHECKS_FILE).as_posix()
        self._known: dict[str, CheckFile] = {}

    def load(self, git: Git, base: str) -> CheckFile:
        """Return the checks at a commit; without the file there are none."""
        commit = base if base in self._known else _resolve(git, base)
        if commit not in self._known:
            content = read_committed_file(git, commit, self._file)
            source = f"{CHECKS_FILE} at {commit[:12]}"
            self._known[commit] = CheckFile() if content is None else parse_checks(content, source)
        return self._known[commit]

    def select_for(
        self, git: Git, request: ProofRequest | CommitProofRequest
    ) -> tuple[CheckFile, list[Check]]:
        """Return the checks that a request names, as it wants them to run."""
        return self.select(git, request.base, request.names)

    def select(self, git: Git, base: str | None, names: Iterable[str]) -> tuple[CheckFile, list[Check]]:
        """Return the checks with these names; raises InvalidInput if one is not defined at the base."""
        if base is None:
            raise InvalidInput(
                "Checks need a git repository with a commit: their definitions are read from there.",
                suggestion=_COMMIT_FIRST,
            )
        found = self.load(git, base)
        unknown = [name for name in names if name not in found.checks]
        if unknown:
            defined = ", ".join(found.checks) or "none"
            raise InvalidInput(
                f"The check {unknown[0][:200]!r} is not defined in {CHECKS_FILE} at {base[:12]}; "
                f"defined there: {defined[:500]}.",
                suggestion=self._suggest_commit(git),
            )
        return found, [found.checks[name] for name in dict.fromkeys(names)]

    def _suggest_commit(self, git: Git) -> str:
        hidden = find_hidden_checks((git.root / self._file).parent)
        return f"{hidden} {_COMMIT_FIRST}" if hidden else _COMMIT_FIRST


def parse_checks(content: bytes, source: str = CHECKS_FILE) -> CheckFile:
    """Parse the file; raises InvalidDefinition with all its problems."""
    # Imported here, because building the models takes time and a server starts without reading checks.
    from deepwork.gates.checks.check_file import CheckFileDefinition  # noqa: PLC0415
    from deepwork.kernel.files.definition_models import validate_data  # noqa: PLC0415

    document = _load_document(content, source)
    model, malformed = validate_data(CheckFileDefinition, document.data)
    if model is None or malformed:
        raise InvalidDefinition(*map(document.locate, malformed))
    guarded = tuple(dict.fromkeys((*ALWAYS_GUARDED, *model.guarded)))
    checks = {
        name: Check(
            name=name,
            run=tuple(defined.run),
            timeout_seconds=parse_seconds(defined.timeout) if defined.timeout else DEFAULT_TIMEOUT_SECONDS,
            needs=tuple(defined.needs),
            junit=defined.junit or None,
            not_fewer=defined.not_fewer,
            retries=defined.retries,
            clean=defined.clean,
            guarded=guarded,
        )
        for name, defined in model.checks.items()
    }
    if wrong := [document.locate(problem) for problem in find_problems(checks.values())]:
        raise InvalidDefinition(*wrong[:MAX_PROBLEMS])
    return CheckFile(checks, guarded)


def find_problems(checks: Iterable[Check]) -> Iterator[DefinitionProblem]:
    """Find the problems that concern several keys of a check, or the amount that one of them says."""
    for check in checks:
        where = ("checks", check.name)
        if not check.run[0].strip():
            yield DefinitionProblem((*where, "run", 0), "the program has no name", "name it first")
        if check.timeout_seconds > _MAX_SECONDS:
            yield DefinitionProblem((*where, "timeout"), "this is longer than a day", "write at most 24h")
        if check.not_fewer and check.junit is None:
            yield DefinitionProblem(
                (*where, "not_fewer"), "without a report the tests cannot be counted", "add junit"
            )


def parse_seconds(text: str) -> int:
    """Parse a duration such as 15m."""
    return int(text[:-1]) * _SECONDS[text[-1]]


def _load_document(content: bytes, source: str) -> YamlDocument:
    try:
        return load_yaml(content.decode("utf-8-sig"), source=source)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = "The text is not UTF-8; save the file as UTF-8."
        raise InvalidDefinition(FileProblem(source, line, message)) from error


def _resolve(git: Git, base: str) -> str:
    commit = read_commits(git, [base]).get(base)
    if commit is None:
        raise InvalidInput(
            f"The base commit {base[:200]!r} is not in this repository.",
            suggestion="Fetch it, or start the work again from a commit that exists.",
        )
    return commit.commit
