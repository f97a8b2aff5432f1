"""Where config files and programs are on this machine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.kernel.vendors import VENDORS


@dataclass(frozen=True)
class MachineLocations:
    """The project, the home folder, the environment and the program; created once per command."""

    project: Path
    home: Path
    environment: Mapping[str, str]
    is_macos: bool
    program: Sequence[str]
    """The command that starts this installation of deepwork, with an absolute path."""

    def resolve(self, place: str) -> Path:
        """Resolve a path of the table of vendors, such as "{home}/.cursor/mcp.json"."""
        word, rest = re.fullmatch(r"\{(\w+)\}/?(.*)", place).groups()  # type: ignore[union-attr]
        return self._get_folder(word) / rest

    def format_path(self, path: Path) -> str:
        """Format a path relative to the project or the home folder."""
        for folder, name in ((self.project, ""), (self.home, "~/")):
            if path.is_relative_to(folder):
                return f"{name}{path.relative_to(folder)}"
        return str(path)

    def find_program(self, program: str) -> str | None:
        """Find a program on PATH."""
        return shutil.which(program, path=self.environment.get("PATH", os.defpath))

    def _get_folder(self, word: str) -> Path:
        config = self._get_folder_from_env("XDG_CONFIG_HOME", self.home / ".config")
        return {
            "project": self.project,
            "home": self.home,
            "config": config,
            "apps": self.home / "Library" / "Application Support" if self.is_macos else config,
            **{
                name: self._get_folder_from_env(variable, self.home / usual)
                for vendor in VENDORS
                for name, (variable, usual) in vendor.home_folders.items()
            },
        }[word]

    def _get_folder_from_env(self, variable: str, usual: Path) -> Path:
        """Return the folder named by an environment variable; a relative path is ignored."""
        named = Path(self.environment.get(variable, ""))
        return named if named.is_absolute() else usual
