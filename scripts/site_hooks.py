"""What MkDocs is told while it builds the site: our fences, and links that leave the documentation."""

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
    """The page without what only tests read, and with links into the repository made whole."""
    shown = _FOR_TESTS.sub("", markdown)
    shown = _FENCE.sub(lambda fence: fence[1] + "".join(_TITLE.findall(fence[2])), shown)
    return _LINK.sub(lambda link: link[1] + _outside(page.file.src_uri, link[2]), shown)


def _outside(page: str, target: str) -> str:
    """A path that leaves docs/ becomes the file's address in the repository."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return target if path.startswith("docs/") else SOURCE + path
