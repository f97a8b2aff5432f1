"""Where things are on this machine: the project, the user's folders, programs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Surroundings:
    """What a setup goes by; made once, by the command."""

    project: Path
    home: Path
    environment: Mapping[str, str]
    is_macos: bool
    program: Sequence[str]
    """How this very deepwork is started, with an absolute path."""

    def path(self, place: str) -> Path:
        """The path that a place of the table means here."""
        word, rest = re.fullmatch(r"\{(\w+)\}/?(.*)", place).groups()  # type: ignore[union-attr]
        return self._folder(word) / rest

    def shown(self, path: Path) -> str:
        """A path as a person knows it."""
        for folder, name in ((self.project, ""), (self.home, "~/")):
            if path.is_relative_to(folder):
                return f"{name}{path.relative_to(folder)}"
        return str(path)

    def find(self, program: str) -> str | None:
        """Where a program is, by PATH."""
        return shutil.which(program, path=self.environment.get("PATH", os.defpath))

    def _folder(self, word: str) -> Path:
        config = self._given("XDG_CONFIG_HOME", self.home / ".config")
        return {
            "project": self.project,
            "home": self.home,
            "config": config,
            "apps": self.home / "Library" / "Application Support" if self.is_macos else config,
            "claude": self._given("CLAUDE_CONFIG_DIR", self.home / ".claude"),
            "claude_json": self._given("CLAUDE_CONFIG_DIR", self.home),
            "codex": self._given("CODEX_HOME", self.home / ".codex"),
            "gemini": self._given("GEMINI_CLI_HOME", self.home) / ".gemini",
        }[word]

    def _given(self, variable: str, usual: Path) -> Path:
        """The folder that a variable names; one that is not absolute means nothing."""
        named = Path(self.environment.get(variable, ""))
        return named if named.is_absolute() else usual
