"""Whether git stores of files what the rules of their own tree say.

Git converts line endings and encodings by attributes. Those of the tree are part of every commit. Others are
not: `info/attributes`, `core.attributesFile`, the user's own file, a `.gitattributes` that is ignored. With
these, a commit has other bytes than the files that were checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.empty_repository import open_empty_repository
from deepwork.kernel.git.exact_files import find_mode, hash_files
from deepwork.kernel.git.refs import compute_hash, find_algorithm
from deepwork.kernel.git.snapshot_types import LINK_MODE, TreeFile

_ATTRIBUTES = ".gitattributes"


def find_misconverted(
    git: Git, folder: Path, files: Sequence[TreeFile], tree: Iterable[TreeFile]
) -> list[str]:
    """List those of these files that git stores otherwise than the attributes of their tree say.

    Line endings do not count: the settings of many repositories convert them, and no other byte.
    """
    left = [file for file in files if not _has_other_line_ends(folder / file.path, file.blob)]
    if not left:
        return []
    rules = [file.path for file in tree if os.path.basename(file.path) == _ATTRIBUTES]  # noqa: PTH119
    stored = _convert(git, folder, left, rules)
    return [file.path for file in left if stored.get(file.path) != file.blob]


def _has_other_line_ends(path: Path, blob: str) -> bool:
    with open(path, "rb", opener=open_unlocked) as file:
        content = file.read()
    return compute_hash("blob", content.replace(b"\r\n", b"\n"), find_algorithm(blob)) == blob


def _convert(git: Git, folder: Path, files: Sequence[TreeFile], rules: Iterable[str]) -> dict[str, str]:
    """Return the hashes that git gives these files if nothing but the rules of their tree counts."""
    with open_empty_repository(algorithm=find_algorithm(files[0].blob)) as empty:
        for path in rules:
            if find_mode(folder / path) not in (None, LINK_MODE):
                empty.write(f"tree/{path}", (folder / path).read_bytes())
        for file in files:
            if f"tree/{file.path}" not in empty.made:
                empty.link(f"tree/{file.path}", folder / file.path)
        empty.seal()
        return hash_files(git.at(empty.tree), [file.path for file in files], env=empty.environment)
