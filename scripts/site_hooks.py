"""MkDocs hooks: remove our fence attributes, and resolve links to files outside docs/."""

from __future__ import annotations

import posixpath
import re
from typing import Any

SOURCE = "https://github.com/deepwork/deepwork/blob/main/"

_FENCE = re.compile(r"^( *`{3,}\w+)((?: [\w-]+(?:=\"[^\"]*\")?)+)[ ]*$", re.MULTILINE)
_TITLE = re.compile(r' title="[^"]*"')
_FOR_TESTS = re.compile(r"^<!-- (?:console\n.*?^-->|fence: .*? -->)\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Remove what only tests need, and make links into the repository absolute."""
    shown = _FOR_TESTS.sub("", markdown)
    shown = _FENCE.sub(lambda fence: fence[1] + "".join(_TITLE.findall(fence[2])), shown)
    return _LINK.sub(lambda link: link[1] + _resolve_link(page.file.src_uri, link[2]), shown)


def _resolve_link(page: str, target: str) -> str:
    """Convert a path that leaves docs/ into the file's URL in the repository."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return target if path.startswith("docs/") else SOURCE + path
