"""`deepwork trust`: let the settings of a repository act that could open ports, connect or start programs."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from deepwork.edge.cli.framework.options import (
    json_option,
    load_command_settings,
    passphrase_option,
    project_option,
    resolve_project,
)
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.gates.checks.definitions import CheckDefinitions
from deepwork.gates.checks.models import CHECKS_FILE, CheckFile, build_trusted_definitions
from deepwork.gates.checks.trusting import find_untrusted_versions, pin_checks, resolve_all_pins
from deepwork.kernel.config import Settings, list_acting_settings
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import InvalidInput, NotAllowed, StorageError
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.foreign_text import escape_line
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import resolve_commit
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import CredentialKind, Kind, Pins, list_untrusted, open_trust_store
from deepwork.kernel.values import format_timestamp

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application


_SECRET_PARAMETERS = {
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
}


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask, for scripts.")
@click.option("--list", "mode", flag_value="list", help="List all projects in which you trust something.")
@click.option("--revoke", "mode", flag_value="revoke", help="Trust nothing in this project any more.")
@click.option("--commit", metavar="REV", help="Trust the checks of this commit. Default: the last one.")
@passphrase_option
@project_option
@json_option
def trust(
    yes: bool, mode: str | None, commit: str | None, passphrase_stdin: bool, path: str, as_json: bool
) -> None:
    """Trust the settings of a project that can open a port, name a server or a folder, or start a program.

    And trust the commands of its checks, as committed. All of these are ignored until then. If one of them
    changes later, it is ignored until you run this again. It takes the same proof as approvals; --yes is
    proof enough only where a token is.
    """
    if mode == "list":
        _print_projects(as_json=as_json)
    elif mode == "revoke":
        _revoke(path, as_json=as_json)
    else:
        settings = load_command_settings(path, quiet=True)
        checks = load_committed_checks(settings.repository_root, commit)
        _trust_project(settings, checks, yes=yes, passphrase_stdin=passphrase_stdin, as_json=as_json)


def _trust_project(
    settings: Settings, checks: CommittedChecks, *, yes: bool, passphrase_stdin: bool, as_json: bool
) -> None:
    project, definitions = settings.repository_root, list_acting_settings(settings.project_root)
    untrusted = list_untrusted(project, Kind.CONFIG, definitions)
    rows = [
        {"key": key, "value": _hide_secrets(value), "trusted": key not in untrusted}
        for key, value in definitions.items()
    ]
    new = {key: _hide_secrets(definitions[key]) for key in untrusted}
    new |= {name: checks.describe(name) for name in checks.untrusted}
    if not as_json:
        _print_definitions(project, rows, checks)
    if new:
        proof = _obtain_proof(settings, new, yes=yes, passphrase_stdin=passphrase_stdin)
        _pin(project, definitions, checks, proof)
    if as_json:
        trusted = [{**row, "trusted": True} for row in rows]
        commands = [{**row, "trusted": True} for row in checks.list_rows()]
        answer = {"project": str(project), "settings": trusted, "checks": commands, "changed": bool(new)}
        print_answer(answer, as_json=True)
    elif untrusted:
        print("Trusted. Restart running servers to apply it; `deepwork trust --revoke` undoes it.")
    elif new:
        print("Trusted. `deepwork trust --revoke` undoes it.")


def trust_checks(settings: Settings, checks: CommittedChecks) -> None:
    """Trust the commands of these checks, to which a person at this terminal has said yes.

    It takes the proof that `deepwork trust` does.
    """
    proof = CredentialKind.TOKEN
    if _may_need_more_than_token(settings):
        new = {name: checks.describe(name) for name in checks.untrusted}
        proof = _prove_person(settings, new, passphrase_stdin=False)
    now = format_timestamp(time.time_ns() // 1_000_000)
    pin_checks(settings.repository_root, checks.file, proof=proof, trusted_at=now)


def _pin(
    project: Path, definitions: Mapping[str, Any], checks: CommittedChecks, proof: CredentialKind
) -> None:
    store, now = open_trust_store(), format_timestamp(time.time_ns() // 1_000_000)
    store.pin(project, Kind.CONFIG, definitions, proof=proof, trusted_at=now)
    if checks.untrusted:
        pin_checks(project, checks.file, proof=proof, trusted_at=now)


def _print_definitions(project: Path, rows: list[dict[str, Any]], checks: CommittedChecks) -> None:
    if not rows and not checks.definitions:
        print(f"Nothing in {to_printable(str(project))} needs trust.")
        return
    if rows:
        print(f".deepwork/config.yml of {to_printable(str(project))} wants to set:")
    width = max((len(row["key"]) for row in rows), default=0)
    for row in rows:
        known = "  (trusted)" if row["trusted"] else ""
        lines = "\n".ljust(width + 5).join(_list_value_lines(row["value"]))
        print(f"  {row['key']:<{width}}  {lines}{known}")
    if checks.definitions:
        print_checks(checks)
    if all(row["trusted"] for row in rows) and not checks.untrusted:
        print("You trust all of this already.")


def _list_value_lines(value: Any) -> list[str]:
    """Show a value: each command in a line, word by word, so that people see what would run."""
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        return [" ".join(map(quote_word, words)) for words in value]
    return [to_printable(value)]


def _obtain_proof(
    settings: Settings, new: Mapping[str, Any], *, yes: bool, passphrase_stdin: bool
) -> CredentialKind:
    """Let a person confirm, with the proof that approvals need."""
    if _may_need_more_than_token(settings):
        return _prove_person(settings, new, passphrase_stdin=passphrase_stdin)
    if not yes:
        _confirm()
    return CredentialKind.TOKEN


def _confirm() -> None:
    if not sys.stdin or not sys.stdin.isatty():
        raise NotAllowed(
            "Nothing was trusted: standard input is not a terminal, so nobody can be asked.",
            suggestion="Read what is printed above, then run `deepwork trust --yes`.",
        )
    click.echo("They can open a port, connect to a server, use files elsewhere or start a program.", err=True)
    if not click.confirm("Do you trust them?", err=True):
        raise NotAllowed("Nothing was trusted.", suggestion="")


def _may_need_more_than_token(settings: Settings) -> bool:
    """Whether this user demands or has enrolled more than a token; without a store their folder says it."""
    from deepwork.edge.cli.framework.applications import is_store_missing
    from deepwork.gates.approvals.credentials import CredentialFile
    from deepwork.gates.approvals.person_proof import PersonProofs
    from deepwork.kernel.user_settings import load_user_settings

    if load_user_settings().proof is not CredentialKind.TOKEN or CredentialFile().load():
        return True
    if is_store_missing(settings):
        return False
    try:
        with closing(_open_application(settings)) as app:
            return PersonProofs(app.database).read_state().required is not CredentialKind.TOKEN
    except StorageError:  # such as a store that came with the repository, which says nothing of this user
        return False


def _prove_person(settings: Settings, new: Mapping[str, Any], *, passphrase_stdin: bool) -> CredentialKind:
    """Check the proof in the project's store: it counts tries, and shows what a passkey is asked for."""
    from deepwork.edge.cli.framework.proofs import build_act_call
    from deepwork.gates.approvals.enrollment import prove_act

    call = build_act_call("trust", passphrase_stdin=passphrase_stdin)
    shown = {"project": str(settings.repository_root), "trusts": json.loads(json.dumps(new, default=str))}
    with closing(_open_application(settings)) as app:
        return prove_act(app.database, call, shown, {}).checked.method


def _open_application(settings: Settings) -> Application:
    from deepwork.edge.server.application import Application

    return Application(settings)


def _revoke(path: str, *, as_json: bool) -> None:
    project = Settings(resolve_project(path).expanduser().resolve()).repository_root
    store = open_trust_store()
    was_trusted = str(project) in store.load()
    if was_trusted:
        store.revoke(project)
    if as_json:
        print_answer({"project": str(project), "changed": was_trusted}, as_json=True)
        return
    done = "is trusted any more" if was_trusted else "was trusted"
    print(f"Nothing in {to_printable(str(project))} {done}.")


def _print_projects(*, as_json: bool) -> None:
    rows = [
        {
            "project": path,
            "trusted_at": trusted.trusted_at,
            "proof": trusted.proof,
            "settings": sorted(trusted.digests.get(Kind.CONFIG, ())),
            "checks": sorted({name.rpartition("@")[0] for name in trusted.digests.get(Kind.CHECKS, ())}),
        }
        for path, trusted in open_trust_store().load().items()
    ]
    if rows or as_json:
        print_answer({"projects": rows}, as_json=as_json)
    else:
        print("You trust no project yet.")


def _hide_secrets(value: Any) -> Any:
    """Hide the password of a database URL; everything that says where it leads stays visible."""
    if isinstance(value, tuple):
        return [list(each) if isinstance(each, tuple) else each for each in value]
    scheme, is_url, rest = value.partition("://") if isinstance(value, str) else ("", "", "")
    if not is_url:
        return value
    # As the driver reads it: a user and a password end with the first @, if it is before the first /.
    rest = re.sub(r"^([^:@/]*):[^@/]*@", r"\1:***@", rest)
    return f"{scheme}://" + re.sub(r"([?&])([^=&]*)=([^&]*)", _hide_parameter, rest)


def _hide_parameter(found: re.Match[str]) -> str:
    is_secret = unquote(found[2]).strip().lower() in _SECRET_PARAMETERS
    return f"{found[1]}{found[2]}=***" if is_secret else found[0]


_SHOWN_NAMES = {"timeout_seconds": "timeout in seconds"}
_SHOWN_APART = ("check", "trusted", "program", "run", "guarded")
"""What a line about a check says in its own way; every other key of its definition is shown by its name."""


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
        shown = {key: value for key, value in row.items() if value and key not in _SHOWN_APART}
        more = [f"{_SHOWN_NAMES.get(key, key)} {_format(value)}" for key, value in shown.items()]
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
