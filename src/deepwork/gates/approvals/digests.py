"""The digest of what a person is shown: equal for equal JSON values, however they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def serialize_shown(shown: Mapping[str, Any]) -> str:
    """Serialise JSON values in their one canonical form; raises for what JSON cannot express."""
    return json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def compute_digest(shown: Mapping[str, Any]) -> str:
    """Compute the digest of what is shown."""
    return sha256(serialize_shown(shown).encode()).hexdigest()
