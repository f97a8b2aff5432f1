"""The pages as data: their fenced blocks, in order, with what the fences say about them.

The notation is described for writers in docs/about-these-pages.md.
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


class BadFence(ValueError):
    """A fence says something that nobody understands."""


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
        """The file that the block is."""
        return self.attributes.get("title", "")

    @property
    def why_not_run(self) -> str:
        """The reason, where the commands cannot be run by a test."""
        return self.attributes.get("not-run", "")

    @property
    def stays(self) -> bool:
        """Whether its last command goes on while the rest of the page is followed."""
        return "stays" in self.attributes

    @property
    def is_commands(self) -> bool:
        return self.language in COMMANDS


@dataclass(frozen=True)
class Step:
    """One command, and what the page shows of its output; nothing shown, nothing compared."""

    command: str
    shown: str
    line: int


def all_pages() -> list[Path]:
    """Every page a user reads: the README and the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order; commands in a comment stand among them."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["hidden"] is not None:
            found.append(Block(page, line, "console", match["hidden"]))
            continue
        language, _, rest = match["header"].strip().partition(" ")
        note = _NOTE.search(text[: match.start()])
        attributes = _attributes(f"{rest} {note[1] if note else ''}", f"{page.name}:{line}")
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        found.append(Block(page, line, language, body, attributes))
    return found


def _attributes(text: str, place: str) -> dict[str, str]:
    found: dict[str, str] = dict(_ATTRIBUTE.findall(text))
    unknown = set(found) - KNOWN
    if unknown:
        raise BadFence(f"{place}: a fence cannot say {', '.join(sorted(unknown))}.")
    if "not-run" in found and not found["not-run"]:
        raise BadFence(f"{place}: not-run needs its reason.")
    return found


def steps(block: Block) -> list[Step]:
    """The commands of a block: in `console` after `$ `, else the whole block is one script."""
    if block.language != "console":
        return [Step(block.text.rstrip("\n"), "", block.line + 1)]
    found: list[Step] = []
    command: list[str] = []
    shown: list[str] = []
    began = block.line

    def keep() -> None:
        if command:
            found.append(Step("\n".join(command), "\n".join(shown).strip("\n"), began))

    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            keep()
            command, shown, began = [line[2:]], [], number
        elif command and not shown and command[-1].endswith("\\"):
            command.append(line)
        elif command and not shown and line.startswith("> "):
            command.append(line[2:])
        elif command:
            shown.append(line)
        else:
            raise BadFence(f"{block.page.name}:{number}: output before any command.")
    keep()
    return found
