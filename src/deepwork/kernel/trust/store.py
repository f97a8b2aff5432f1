"""Keeps what this user trusts, in one file of the user's own folder, which no repository can write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.atomic import write_atomically
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file
from deepwork.kernel.trust.models import Kind, Pins, TrustedProject
from deepwork.kernel.trust.rules import compute_digest

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
