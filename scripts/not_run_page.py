"""Generates the list of commands that no test runs, in docs/about-these-pages.md; a test checks it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.pages import ROOT, Block, list_pages, parse_blocks, parse_steps

PAGE = ROOT / "docs" / "about-these-pages.md"
HEAD = "| page | commands | why not |\n|---|--:|---|\n"


def list_unrun_blocks() -> list[Block]:
    """List the blocks that are marked as not run."""
    return [block for page in list_pages() for block in parse_blocks(page) if block.why_not_run]


def render_page() -> str:
    """Render the page with a new table; the text before it is kept."""
    before = PAGE.read_text(encoding="utf-8").partition(HEAD)[0]
    rows = [
        f"| {_format_link(block.page)} | {len(parse_steps(block))} | {block.why_not_run} |\n"
        for block in list_unrun_blocks()
    ]
    return before + HEAD + "".join(rows)


def _format_link(page: Path) -> str:
    path = page.relative_to(ROOT)
    return f"[{path}]({path.relative_to('docs') if path.parts[0] == 'docs' else Path('..') / path})"


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
