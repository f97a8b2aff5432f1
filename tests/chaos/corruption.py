"""Ways to corrupt a database file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
HEADER = 100


def bad_header(file: bytearray, chance: random.Random) -> None:
    """Change a few bytes of the header."""
    for _ in range(chance.randint(1, 8)):
        file[chance.randrange(HEADER)] ^= chance.randint(1, 255)


def garbage_page(file: bytearray, chance: random.Random) -> None:
    """Overwrite whole pages with random bytes."""
    for _ in range(chance.randint(1, 4)):
        start = _page(file, chance)
        file[start : start + PAGE] = chance.randbytes(PAGE)


def empty_page(file: bytearray, chance: random.Random) -> None:
    """Overwrite whole pages with zeros, as if they had never reached the disk."""
    for _ in range(chance.randint(1, 4)):
        start = _page(file, chance)
        file[start : start + PAGE] = bytes(PAGE)


def swapped_pages(file: bytearray, chance: random.Random) -> None:
    """Swap two pages. If they are of the same kind, each is valid in its new place."""
    one, other = _page(file, chance), _page(file, chance)
    file[one : one + PAGE], file[other : other + PAGE] = file[other : other + PAGE], file[one : one + PAGE]


def cut_short(file: bytearray, chance: random.Random) -> None:
    """Truncate the file; at least the last page is lost."""
    del file[chance.randrange(1, len(file) - PAGE) :]


def torn_at_a_page(file: bytearray, chance: random.Random) -> None:
    """Truncate the file at a page boundary."""
    del file[_page(file, chance) :]


def another_file(file: bytearray, chance: random.Random) -> None:
    """Replace the file by something that is not a database."""
    file[:] = chance.choice([chance.randbytes(chance.randrange(1, 50_000)), b"# notes\n" * 500, b"{}"])


def torn_last_page(file: bytearray, chance: random.Random) -> None:
    """Cut the end of the last page, which SQLite reads as zeros."""
    del file[-chance.randrange(1, PAGE) :]


def flipped_bytes(file: bytearray, chance: random.Random) -> None:
    """Flip single bits anywhere; inside strings this cannot be detected."""
    for _ in range(chance.randint(1, 40)):
        file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)


Damage = Callable[[bytearray, random.Random], None]

SEEN_BY_SQLITE: tuple[Damage, ...] = (
    bad_header, garbage_page, empty_page, cut_short, torn_at_a_page, another_file,
)  # fmt: skip
# These may lead to wrong answers: the file has no checksums by which to detect them.
UNSEEN: tuple[Damage, ...] = (swapped_pages, torn_last_page, flipped_bytes)


def spoil(path: Path, how: Damage, chance: random.Random) -> None:
    """Corrupt the file at random places."""
    file = bytearray(path.read_bytes())
    how(file, chance)
    path.write_bytes(file)


def _page(file: bytearray, chance: random.Random) -> int:
    return PAGE * chance.randrange(1, len(file) // PAGE)
