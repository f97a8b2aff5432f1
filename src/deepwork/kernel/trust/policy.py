"""Asks what this user trusts, wherever something of a repository is about to act."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepwork.kernel.environment import build_child_environment, choose_user_file
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.trust.models import Kind
from deepwork.kernel.trust.rules import find_untrusted
from deepwork.kernel.trust.store import FILE_NAME, TrustStore


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
