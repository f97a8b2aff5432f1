"""What a person trusted in a project: settings and checks, by their digests, in the user's own folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from deepwork.kernel.environment import build_child_environment, choose_user_file
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file, write_atomically
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.user_settings import Kind, Pins, TrustedProject


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
