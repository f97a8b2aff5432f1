"""What needs a newer git says so by its number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deepwork.errors import GitError
from deepwork.git.command import Git


@contextmanager
def needs(git: Git, version: str, purpose: str) -> Iterator[None]:
    """Tell of a git that is too old, when the block failed for that reason; asked only then."""
    try:
        yield
    except GitError as error:
        found = git.version()
        if _number(found) >= _number(version):
            raise
        raise GitError(
            f"{purpose} needs git {version} or newer; this is git {found}.",
            suggestion=f"Install git {version} or newer and see that it is on the PATH.",
        ) from error


def _number(version: str) -> tuple[int, ...]:
    """The first two numbers: what follows them differs from one maker to the next."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
