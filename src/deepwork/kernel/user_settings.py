"""What this user decided, in the user's own folder: settings for all projects, and what each is trusted with.

The settings say what no repository may: how a person proves to be one, and what agents may spend in a day.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from deepwork.kernel.environment import build_child_environment, choose_user_file, list_user_folders
from deepwork.kernel.errors import DefinitionError, StorageError
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import (
    FileStamp,
    find_stamp,
    make_private_folder,
    read_private_file,
    write_atomically,
)
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.records import dataclass


class Kind(StrEnum):
    """A kind of definition that can act: open a port, connect, read elsewhere, start a program."""

    CONFIG = "config"
    """A setting in `.deepwork/config.yml`, by its key."""
    CHECKS = "checks"
    """A check in `.deepwork/checks.yml`, by its name and version."""


class CredentialKind(StrEnum):
    """How a person proves that a decision is a person's, from the weakest to the strongest."""

    TOKEN = "token"  # noqa: S105 - a word
    """A person's token, an answer at a terminal or `--yes`: what every program of this user can show."""
    PASSPHRASE = "passphrase"  # noqa: S105 - a word
    """A passphrase that only the person knows."""
    PASSKEY = "passkey"
    """A device that a person has unlocked for this one decision."""

    @property
    def rank(self) -> int:
        """Its place in the order of strength."""
        return list(CredentialKind).index(self)

    def covers(self, needed: CredentialKind) -> bool:
        """Return whether this proof is as strong as the needed one."""
        return self.rank >= needed.rank


@dataclass(frozen=True)
class Pins:
    """What a trusted command runs with."""

    program: str | None
    """Its path; None if there was no such program."""
    environment: Mapping[str, str]
    """All its variables, with an absolute PATH."""
    shadowed: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Names that several folders of the PATH had, and the folder whose program was used."""

    def is_like(self, other: Pins) -> bool:
        """Return whether the same programs are found; other variables may differ between terminals."""
        paths = self.environment.get("PATH"), other.environment.get("PATH")
        return (self.program, self.shadowed, paths[0]) == (other.program, other.shadowed, paths[1])


@dataclass(frozen=True)
class TrustedProject:
    """What is trusted in one project: for each kind, the digests of definitions by their names."""

    trusted_at: str
    proof: str
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pins: Mapping[str, Pins] = field(default_factory=dict)
    """What the commands of checks run with, by the same names."""


_MAX_BYTES = 2**20
_MAX_AMOUNT = 10**12


@dataclass(frozen=True)
class DayBudget:
    """What all agents together may spend in a day; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class UserSettings:
    """The settings of this user."""

    proof: CredentialKind = CredentialKind.TOKEN
    """The least that a decision of a person needs."""
    day_budget: DayBudget | None = None


def list_settings_files(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """List the files whose settings count together: no variable leads past that of the account."""
    return [folder / "config.yml" for folder in list_user_folders(environment)]


def load_user_settings(environment: Mapping[str, str] = os.environ) -> UserSettings:
    """Load this user's settings; defaults if there is no file.

    The stricter ones count of those that the environment names and those in the home folder of the account.
    Raises StorageError if others may write the file, and DefinitionError for anything in it that is not a
    setting: a misspelt key must not lower the proof that a person asked for.
    """
    found = [_load_settings(file) for file in list_settings_files(environment)]
    proof = max((each.proof for each in found), key=lambda each: each.rank)
    return UserSettings(proof, _combine_budgets([each.day_budget for each in found if each.day_budget]))


def find_day_budget() -> DayBudget | None:
    """Return what all agents together may spend in a day; None if the user set no limit.

    Every claim asks, so the files are read again only after one changed.
    """
    versions = tuple((str(path), find_stamp(str(path))) for path in list_settings_files())
    return _load_day_budget(versions) if any(stamp for _, stamp in versions) else None


@lru_cache(maxsize=8)
def _load_day_budget(_versions: tuple[tuple[str, FileStamp | None], ...]) -> DayBudget | None:
    return load_user_settings().day_budget


def _load_settings(path: Path) -> UserSettings:
    content = read_private_file(path)
    if content is None:
        return UserSettings()
    return _parse_settings(_KeyPlace(path), _load_mapping(path, content))


def _combine_budgets(budgets: Sequence[DayBudget]) -> DayBudget | None:
    """Combine budgets to what all of them allow; None if there is none."""

    def least(name: str) -> Any:
        return min((value for each in budgets if (value := getattr(each, name)) is not None), default=None)

    names = DayBudget.__dataclass_fields__
    return DayBudget(**{name: least(name) for name in names}) if budgets else None


def _load_mapping(path: Path, content: bytes) -> Any:
    if len(content) > _MAX_BYTES:
        raise DefinitionError(f"{path} is larger than {_MAX_BYTES:,} bytes.")
    # Importing YAML costs as much as the rest of a small command, so only if there is a file.
    from deepwork.kernel.files.yaml import load_yaml  # noqa: PLC0415

    try:
        return load_yaml(content.decode(), source=str(path)).data
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path} cannot be read: {error}.") from error


@dataclass(frozen=True)
class _KeyPlace:
    """A key in the file, for errors."""

    path: Path
    key: str = ""

    def enter(self, key: str) -> _KeyPlace:
        return _KeyPlace(self.path, f"{self.key}.{key}" if self.key else key)

    def build_error(self, value: Any, allowed: str) -> DefinitionError:
        subject = f"`{self.key}` in {self.path}" if self.key else str(self.path)
        return DefinitionError(
            f"{subject} is {str(value)[:100]!r}; it must be {allowed}.", suggestion=f"Correct {self.path}."
        )


def _parse_settings(place: _KeyPlace, data: Any) -> UserSettings:
    settings = _read_keys(place, data, {"approvals", "budget"})
    approvals = _read_keys(place.enter("approvals"), settings.get("approvals"), {"proof"})
    budget = _read_keys(place.enter("budget"), settings.get("budget"), {"day"})
    return UserSettings(
        _parse_proof(place.enter("approvals").enter("proof"), approvals.get("proof")),
        _parse_day_budget(place.enter("budget").enter("day"), budget.get("day")),
    )


def _read_keys(place: _KeyPlace, data: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Return a mapping that has only known keys; an empty one if there is none."""
    if data is None:
        return {}
    allowed = f"a mapping with the keys {', '.join(sorted(known))}"
    if not isinstance(data, dict):
        raise place.build_error(data, allowed)
    if unknown := sorted(set(data) - set(known)):
        name = place.enter(unknown[0]).key
        raise DefinitionError(
            f"{place.path} has an unknown key {name!r}; known here: {', '.join(sorted(known))}.",
            suggestion="Remove it or correct its spelling.",
        )
    return data


def _parse_proof(place: _KeyPlace, value: Any) -> CredentialKind:
    if value is None:
        return CredentialKind.TOKEN
    if value not in list(CredentialKind):
        raise place.build_error(value, "token, passphrase or passkey")
    return CredentialKind(value)


def _parse_day_budget(place: _KeyPlace, data: Any) -> DayBudget | None:
    given = _read_keys(place, data, {"usd", "tokens", "minutes"})
    for key, value in given.items():
        _require_amount(place.enter(key), value, is_whole=key == "tokens")
    return DayBudget(**given) if given else None


def _require_amount(place: _KeyPlace, value: Any, *, is_whole: bool) -> None:
    kinds = (int,) if is_whole else (int, float)
    if type(value) not in kinds or not isfinite(value) or not 0 <= value <= _MAX_AMOUNT:
        raise place.build_error(value, f"a {'whole ' if is_whole else ''}number from 0 to {_MAX_AMOUNT:,}")


def compute_digest(definition: Any) -> str:
    """Compute the digest of a parsed definition; it does not depend on how the definition was written."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()


def compute_pins_digest(pins: Pins) -> str:
    """Compute the digest of the program and the environment of a command."""
    return compute_digest({"program": pins.program, "environment": dict(pins.environment)})


def find_untrusted(definitions: Mapping[str, Any], digests: Mapping[str, str]) -> tuple[str, ...]:
    """List the names of definitions that are not pinned, or not with this value."""
    return tuple(
        name for name, definition in definitions.items() if digests.get(name) != compute_digest(definition)
    )


def render_untrusted_line(keys: Iterable[str]) -> str:
    """Say in one line which settings are ignored, and what makes them count; values may be secret."""
    return f"Ignored in .deepwork/config.yml until you run `deepwork trust`: {', '.join(keys)}."


FILE_NAME = "trust.json"
_VERSION = 1


class TrustStore:
    """The trusted projects by their path; readers never see half a change, writers wait for each other."""

    def __init__(self, user_folder: Path) -> None:
        self._path = user_folder / FILE_NAME

    def load(self) -> dict[str, TrustedProject]:
        """Load all trusted projects; raises StorageError if the file cannot be relied on."""
        content = read_private_file(self._path)
        if content is None:
            return {}
        try:
            return {path: _parse_project(data) for path, data in json.loads(content)["projects"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StorageError(
                f"{self._path} is damaged, so nothing is trusted.",
                suggestion="Remove it, then run `deepwork trust` in each project that you trust.",
            ) from None

    def find(self, project: Path) -> TrustedProject | None:
        """Return what is trusted in a project; nothing if the file cannot be relied on."""
        try:
            return self.load().get(str(project))
        except StorageError:  # `deepwork doctor` and `deepwork trust` report it
            return None

    def find_digests(self, project: Path, kind: Kind) -> Mapping[str, str]:
        """Return what is pinned for a project; nothing if the file cannot be relied on."""
        trusted = self.find(project)
        return trusted.digests.get(kind, {}) if trusted else {}

    def pin(
        self,
        project: Path,
        kind: Kind,
        definitions: Mapping[str, Any],
        *,
        proof: str,
        trusted_at: str,
        keeps_others: bool = False,
        pins: Mapping[str, Pins] | None = None,
    ) -> None:
        """Trust exactly these definitions of a kind, with these programs.

        What was pinned of this kind before counts no more, unless its names contain versions.
        """
        pinned = {name: compute_digest(definition) for name, definition in definitions.items()}

        def add(projects: dict[str, TrustedProject]) -> None:
            before = projects.get(str(project), TrustedProject(trusted_at, proof))
            kept = before.digests.get(kind, {}) if keeps_others else {}
            digests = {**before.digests, kind: {**kept, **pinned}}
            projects[str(project)] = TrustedProject(
                trusted_at, proof, digests, {**before.pins, **(pins or {})}
            )

        self._change(add)

    def revoke(self, project: Path) -> None:
        """Trust nothing in a project any more."""
        self._change(lambda projects: projects.pop(str(project), None))

    def _change(self, change: Callable[[dict[str, TrustedProject]], object]) -> None:
        make_private_folder(self._path.parent)
        with hold_file_lock(self._path.with_name("trust.lock")):
            projects = self.load()
            change(projects)
            data = {
                "version": _VERSION,
                "projects": {path: asdict(project) for path, project in sorted(projects.items())},
            }
            write_atomically(self._path, json.dumps(data, indent=2).encode() + b"\n")


def _parse_project(data: Any) -> TrustedProject:
    digests = {
        str(kind): {str(name): str(digest) for name, digest in pinned.items()}
        for kind, pinned in data["digests"].items()
    }
    pins = {str(name): _parse_pins(each) for name, each in data.get("pins", {}).items()}
    return TrustedProject(str(data["trusted_at"]), str(data["proof"]), digests, pins)


def _parse_pins(data: Any) -> Pins:
    program, environment = (
        data["program"],
        {str(name): str(text) for name, text in data["environment"].items()},
    )
    if program is not None and not isinstance(program, str):
        raise TypeError
    environment["PATH"]
    shadowed = {str(name): str(folder) for name, folder in data["shadowed"].items()}
    return Pins(program, environment, shadowed)


def open_trust_store(environment: Mapping[str, str] = os.environ) -> TrustStore:
    """Open the store of this user."""
    return TrustStore(choose_user_file(FILE_NAME, environment).parent)


def list_untrusted(
    project: Path, kind: Kind, definitions: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """List the names of definitions that must not act; `project` is its path in the main tree."""
    return find_untrusted(definitions, open_trust_store(environment).find_digests(project, kind))


def build_git_environment(tree: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build the environment of git in a tree, with the PATH that was trusted for its checks, if any was.

    Otherwise an agent that starts deepwork would choose the program that tells what changed.
    """
    kept = build_child_environment(environment)
    main = find_repository(tree)
    try:
        projects = open_trust_store(environment).load() if main else {}
    except StorageError:  # `deepwork doctor` and `deepwork trust` report it
        return kept
    for path, project in projects.items():
        if project.pins and Path(path).is_relative_to(main or path):
            newest = list(project.pins.values())[-1]
            return {**kept, "PATH": newest.environment["PATH"]}
    return kept
