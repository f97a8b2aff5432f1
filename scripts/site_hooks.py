"""MkDocs hooks: draw diagrams, remove our fence attributes, and name files outside docs/ instead of linking to them."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from scripts.sequence_diagrams import draw_diagrams

_FENCE = re.compile(r"^( *`{3,}\w+)((?: [\w-]+(?:=\"[^\"]*\")?)+)[ ]*$", re.MULTILINE)
_TITLE = re.compile(r' title="[^"]*"')
_FOR_TESTS = re.compile(r"^<!-- (?:console\n.*?^-->|fence: .*? -->)\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Remove what only tests need, and links that leave the site."""
    shown = _FOR_TESTS.sub("", markdown)
    shown = _FENCE.sub(lambda fence: fence[1] + "".join(_TITLE.findall(fence[2])), shown)
    return draw_diagrams(_LINK.sub(lambda link: _resolve_link(page.file.src_uri, link), shown))


def _resolve_link(page: str, link: re.Match[str]) -> str:
    """Keep a link within docs/; replace one to another file of the repository by its text and path."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[2]))
    return link[0] if path.startswith("docs/") else f"{link[1]} (`{path}`)"
