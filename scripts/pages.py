"""Parses the documentation: fenced blocks, their attributes, and the commands in them.

docs/about-these-pages.md describes the notation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COMMANDS = ("console", "bash", "sh", "shell")
KNOWN = {"title", "not-run", "stays", "exit"}

_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<header>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ ]*$"
    r"|^<!-- console\n(?P<hidden>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- fence: (.*?) -->\n$")
_ATTRIBUTE = re.compile(r'([\w-]+)(?:="([^"]*)")?')


class FenceError(ValueError):
    """A fence has an unknown or incomplete attribute."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def title(self) -> str:
        """The name of the file whose content the block shows."""
        return self.attributes.get("title", "")

    @property
    def why_not_run(self) -> str:
        """Why a test cannot run the commands; empty if it can."""
        return self.attributes.get("not-run", "")

    @property
    def stays(self) -> bool:
        """Whether its last command keeps running for the rest of the page."""
        return "stays" in self.attributes

    @property
    def is_commands(self) -> bool:
        return self.language in COMMANDS


@dataclass(frozen=True)
class Step:
    """One command and its output on the page; empty output is not compared."""

    command: str
    shown: str
    line: int


def list_pages() -> list[Path]:
    """List the pages for users: the README and the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def parse_blocks(page: Path) -> list[Block]:
    """Parse the fenced blocks of a page, in order, including commands in HTML comments."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"] is not None:
            found.append(Block(page, line, "console", match["hidden"]))
            continue
        language, _, rest = match["header"].strip().partition(" ")
        note = _NOTE.search(text[: match.start()])
        attributes = _parse_attributes(f"{rest} {note[1] if note else ''}", f"{page.name}:{line}")
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        found.append(Block(page, line, language, body, attributes))
    return found


def _parse_attributes(text: str, place: str) -> dict[str, str]:
    found: dict[str, str] = dict(_ATTRIBUTE.findall(text))
    unknown = set(found) - KNOWN
    if unknown:
        raise FenceError(f"{place}: a fence has no attribute {', '.join(sorted(unknown))}.")
    if "not-run" in found and not found["not-run"]:
        raise FenceError(f"{place}: not-run needs its reason.")
    return found


def parse_steps(block: Block) -> list[Step]:
    """Split a block into commands: a `console` block at `$ `; any other block is one script."""
    if block.language != "console":
        return [Step(block.text.rstrip("\n"), "", block.line + 1)]
    found: list[Step] = []
    command: list[str] = []
    shown: list[str] = []
    began = block.line

    def add_step() -> None:
        if command:
            found.append(Step("\n".join(command), "\n".join(shown).strip("\n"), began))

    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            add_step()
            command, shown, began = [line[2:]], [], number
        elif command and not shown and command[-1].endswith("\\"):
            command.append(line)
        elif command and not shown and line.startswith("> "):
            command.append(line[2:])
        elif command:
            shown.append(line)
        else:
            raise FenceError(f"{block.page.name}:{number}: output before any command.")
    add_step()
    return found
