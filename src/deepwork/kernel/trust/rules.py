"""Decides which definitions are trusted, as pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from deepwork.kernel.trust.models import Pins


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
