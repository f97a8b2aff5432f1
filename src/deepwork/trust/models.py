"""What a person trusted in a project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """A kind of definition that can act: open a port, connect, read elsewhere, start a program."""

    CONFIG = "config"
    """A setting in `.deepwork/config.yml`, by its key."""
    CHECKS = "checks"
    """A check in `.deepwork/checks.yml`, by its name and version."""


class Proof(StrEnum):
    """How a person showed that it was a person who trusted."""

    TOKEN = "token"  # noqa: S105 - a word
    """An answer at a terminal or `--yes`: as much as anybody who can act as this user can show."""


@dataclass(frozen=True)
class TrustedProject:
    """What is trusted in one project: for each kind, the digests of definitions by their names."""

    trusted_at: str
    proof: str
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
