"""Where wishes come from: a sentence, standard input, a file. Other sources build a `WishText`, too."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import click

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.work.wishes.models import MAX_WISH, WishSource

_ID_PATTERN = re.compile(r"wi_[0-9a-z]+")
_FILE_PATTERN = re.compile(r"\S+\.(?:md|txt|rst|adoc)", re.IGNORECASE)
_MAX_BYTES = 4 * MAX_WISH
_MAX_PATH = 1000


class WishText(NamedTuple):
    """A wish as it was said, and by what; `ref` is the file or address it is from."""

    text: str
    source: WishSource
    ref: str | None = None


def is_wish_id(given: str | None) -> bool:
    """Return whether a wish is named by its id."""
    return given is not None and _ID_PATTERN.fullmatch(given) is not None


def read_wish(given: str) -> WishText:
    """Read the wish that an argument is, or names: `-` for standard input, or a file."""
    if given == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise click.UsageError("Nothing is piped into standard input: say the wish, or name a file.")
        return WishText(_decode(sys.stdin.buffer.read(_MAX_BYTES + 1), "Standard input"), WishSource.STDIN)
    path = Path(given) if len(given) <= _MAX_PATH and "\n" not in given and "\0" not in given else None
    if path is not None and path.is_file():
        try:
            with path.open("rb") as file:
                return WishText(_decode(file.read(_MAX_BYTES + 1), given), WishSource.FILE, given)
        except OSError as error:
            raise InvalidInput(f"{given} cannot be read: {error.strerror}.") from None
    if path is not None and (_FILE_PATTERN.fullmatch(given) or given.endswith(os.sep)):
        raise InvalidInput(
            f"There is no file {given!r}.", suggestion="Name a file, or say what is wanted in a sentence."
        )
    return WishText(given, WishSource.SENTENCE)


def _decode(content: bytes, source: str) -> str:
    if len(content) > _MAX_BYTES:
        raise InvalidInput(
            f"{source} is too large for a wish.",
            code=Code.TOO_LARGE,
            suggestion="Commit the text as a file of the project, and name that file in one sentence.",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{source} is not text in UTF-8.", suggestion="Save it as UTF-8.") from None
    if "\0" in text:
        raise InvalidInput(f"{source} is not a text.", suggestion="Name a text file.")
    return text
