"""Reports when a feature needs a newer git."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git


@contextmanager
def require_version(git: Git, version: str, purpose: str) -> Iterator[None]:
    """Replace an error of the block by a clear one if git is too old; checks the version only on error."""
    try:
        yield
    except GitError as error:
        found = git.get_version()
        if _parse_version(found) >= _parse_version(version):
            raise
        raise GitError(
            f"{purpose} needs git {version} or newer; this is git {found}.",
            suggestion=f"Install git {version} or newer and make sure it is on the PATH.",
        ) from error


def _parse_version(version: str) -> tuple[int, ...]:
    """Return the first two numbers; the rest of the format differs between vendors."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
