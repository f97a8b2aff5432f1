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
