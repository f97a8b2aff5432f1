"""Writes the list of commands that no test runs into docs/about-these-pages.md; a test holds the page to it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.pages import ROOT, Block, all_pages, blocks, steps

PAGE = ROOT / "docs" / "about-these-pages.md"
HEAD = "| page | commands | why not |\n|---|--:|---|\n"


def not_run() -> list[Block]:
    """Blocks that say why they cannot be run."""
    return [block for page in all_pages() for block in blocks(page) if block.why_not_run]


def page() -> str:
    """The page with its table made anew; the words around it are kept."""
    before = PAGE.read_text(encoding="utf-8").partition(HEAD)[0]
    rows = [f"| {_link(block.page)} | {len(steps(block))} | {block.why_not_run} |\n" for block in not_run()]
    return before + HEAD + "".join(rows)


def _link(page: Path) -> str:
    path = page.relative_to(ROOT)
    return f"[{path}]({path.relative_to('docs') if path.parts[0] == 'docs' else Path('..') / path})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
