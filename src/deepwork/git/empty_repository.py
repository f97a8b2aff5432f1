"""A repository of our own for one question: no settings, ignore rules or attributes of others count there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

_SHA256_CONFIG = "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n"


class EmptyRepository(NamedTuple):
    """Its empty working tree, and the environment in which git works there."""

    tree: Path
    environment: dict[str, str]


@contextmanager
def open_empty_repository(
    *, algorithm: str = "sha1", work_tree: Path | None = None, excludes: bytes = b""
) -> Iterator[EmptyRepository]:
    """Yield a temporary repository, optionally for another working tree and with these ignore rules."""
    with TemporaryDirectory(prefix="deepwork-git-") as folder:
        place = Path(folder)
        for name in ("git/objects", "git/refs", "tree"):
            (place / name).mkdir(parents=True)
        (place / "git/HEAD").write_text("ref: refs/heads/none\n")
        (place / "git/config").write_text(_SHA256_CONFIG if algorithm == "sha256" else "")
        (place / "excludes").write_bytes(excludes)
        tree = work_tree or place / "tree"
        yield EmptyRepository(
            tree,
            {
                "GIT_DIR": f"{place}/git",
                "GIT_WORK_TREE": str(tree),
                "GIT_INDEX_FILE": f"{place}/index",
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "core.excludesFile",
                "GIT_CONFIG_VALUE_0": f"{place}/excludes",
                "GIT_CONFIG_KEY_1": "core.attributesFile",
                "GIT_CONFIG_VALUE_1": os.devnull,
            },
        )
