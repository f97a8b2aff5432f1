"""Rules of `.gitignore` files, for questions in which only some of them count."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.git.empty_repository import open_empty_repository

if TYPE_CHECKING:
    from deepwork.kernel.git.command import Git

_SPECIAL = frozenset("*?[\\!# ")


def convert_rules(text: str, folder: str) -> Iterator[str]:
    """Convert the rules of the `.gitignore` in a folder, such as `docs/`, to rules of the root."""
    start = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in folder)
    for line in text.splitlines():
        rule = line if line.endswith("\\ ") else line.rstrip(" ")
        if not rule or rule.startswith("#"):
            continue
        sign, rule = ("!", rule[1:]) if rule.startswith("!") else ("", rule)
        if not folder:
            yield f"{sign}{rule}"
        elif "/" in rule.rstrip("/"):
            yield f"{sign}/{start}{rule.lstrip('/')}"
        else:
            yield f"{sign}/{start}**/{rule}"


def filter_ignored(
    git: Git, paths: Collection[str], excludes: Sequence[str], work_tree: Path | None = None
) -> set[str]:
    """Return the paths that these rules ignore, or those of the `.gitignore` files in a tree.

    Neither `info/exclude` nor the user's own ignore file counts: git is asked in an empty repository.
    """
    if not paths:
        return set()
    rules = b"".join(os.fsencode(rule) + b"\n" for rule in excludes)
    with open_empty_repository(work_tree=work_tree, excludes=rules) as empty:
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        found = git.at(empty.tree).run(
            "check-ignore", "-z", "--stdin", "--no-index",
            input=listed, env=empty.environment, ok_codes=(0, 1),
        )  # fmt: skip
    return set(os.fsdecode(found).split("\0")[:-1])
