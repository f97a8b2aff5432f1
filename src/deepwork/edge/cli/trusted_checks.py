"""The part of `deepwork trust` about checks: commands of the repository, as they are committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepwork.edge.cli.framework.output import to_printable
from deepwork.gates.checks.definitions import CheckDefinitions
from deepwork.gates.checks.models import CHECKS_FILE, CheckFile
from deepwork.gates.checks.rules import build_trusted_definitions
from deepwork.gates.checks.trusting import find_untrusted_versions, resolve_all_pins
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.foreign_text import escape_line
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import resolve_commit
from deepwork.kernel.trust.models import Pins

_SHOWN_KEYS = {"timeout_seconds": "timeout in seconds"} | {
    key: key for key in ("needs", "junit", "not_fewer", "retries", "clean")
}


@dataclass(frozen=True)
class CommittedChecks:
    """The checks of a commit, and those of them that nobody trusted."""

    commit: str | None
    file: CheckFile
    definitions: dict[str, dict[str, Any]]
    untrusted: tuple[str, ...]
    pins: dict[str, Pins] = field(default_factory=dict)

    def describe(self, version: str) -> dict[str, Any]:
        """Return everything that a person trusts with a check."""
        pins = self.pins[version]
        return {**self.definitions[version], "program": pins.program, "path": pins.environment["PATH"]}

    def list_rows(self) -> list[dict[str, Any]]:
        """Return what `--json` says about each check."""
        rows = [
            {
                "check": each["name"],
                "trusted": version not in self.untrusted,
                "program": self.pins[version].program,
                **each,
            }
            for version, each in self.definitions.items()
        ]
        return [{key: value for key, value in row.items() if key != "name"} for row in rows]


def load_committed_checks(project: Path, revision: str | None) -> CommittedChecks:
    """Load the checks of a commit, by default the last one; without a repository there are none."""
    top = find_tree_root(project)
    git = Git(project, environment=build_child_environment()) if top else None
    commit = resolve_commit(git, revision or "HEAD") if git else None
    if revision and commit is None:
        raise InvalidInput(f"There is no commit {revision[:200]!r} here.", suggestion="See `git log`.")
    if git is None or top is None or commit is None:
        return CommittedChecks(None, CheckFile(), {}, ())
    file = CheckDefinitions(project.relative_to(top)).load(git, commit)
    untrusted = find_untrusted_versions(project, file)
    return CommittedChecks(commit, file, build_trusted_definitions(file), untrusted, resolve_all_pins(file))


def print_checks(checks: CommittedChecks) -> None:
    """Print every command, word by word, with everything else that a check says."""
    print(f"{CHECKS_FILE} at {(checks.commit or '')[:12]} wants to run:")
    for row in checks.list_rows():
        known = "  (trusted)" if row["trusted"] else ""
        words = " ".join(quote_word(word) for word in row["run"])
        print(f"  {to_printable(row['check'])}: {words}{known}")
        program = "no such program" if row["program"] is None else quote_word(row["program"])
        more = [f"{name} {_format(row[key])}" for key, name in _SHOWN_KEYS.items() if row[key]]
        print(f"    {'; '.join([f'program {program}', *more])}")
    print(f"  guarded: {_format(list(checks.file.guarded))}")
    for path in {pins.environment["PATH"] for pins in checks.pins.values()}:
        print(f"  with PATH={to_printable(path)}")


def quote_word(word: str) -> str:
    """Quote a word so that people see where it begins and ends; no character can hide another one."""
    plain = word.replace("-", "").replace("_", "").replace("/", "").replace(".", "").replace("=", "")
    return word if plain.isascii() and plain.isalnum() else escape_line(ascii(word))


def _format(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(quote_word(each) for each in value)
    return to_printable(str(value))
