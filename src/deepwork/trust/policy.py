"""Asks what this user trusts, wherever something of a repository is about to act."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepwork.environment import get_user_folder
from deepwork.trust.models import Kind
from deepwork.trust.rules import find_untrusted
from deepwork.trust.store import TrustStore


def open_trust_store(environment: Mapping[str, str] = os.environ) -> TrustStore:
    """Open the store of this user."""
    return TrustStore(get_user_folder(environment))


def list_untrusted(
    project: Path, kind: Kind, definitions: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """List the names of definitions that must not act; `project` is its path in the main tree."""
    return find_untrusted(definitions, open_trust_store(environment).find_digests(project, kind))
