"""Ways in which a database file goes bad."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
HEADER = 100


def bad_header(file: bytearray, chance: random.Random) -> None:
    """A few bytes of the header changed."""
    for _ in range(chance.randint(1, 8)):
        file[chance.randrange(HEADER)] ^= chance.randint(1, 255)


def garbage_page(file: bytearray, chance: random.Random) -> None:
    """Whole pages with something else in them."""
    for _ in range(chance.randint(1, 4)):
        start = _page(file, chance)
        file[start : start + PAGE] = chance.randbytes(PAGE)


def empty_page(file: bytearray, chance: random.Random) -> None:
    """Whole pages that never reached the disk."""
    for _ in range(chance.randint(1, 4)):
        start = _page(file, chance)
        file[start : start + PAGE] = bytes(PAGE)


def swapped_pages(file: bytearray, chance: random.Random) -> None:
    """Two pages, each in the other's place: of one kind, each makes sense where it is."""
    one, other = _page(file, chance), _page(file, chance)
    file[one : one + PAGE], file[other : other + PAGE] = file[other : other + PAGE], file[one : one + PAGE]


def cut_short(file: bytearray, chance: random.Random) -> None:
    """Only the beginning; at least the last page is gone."""
    del file[chance.randrange(1, len(file) - PAGE) :]


def torn_at_a_page(file: bytearray, chance: random.Random) -> None:
    """Only the first pages."""
    del file[_page(file, chance) :]


def another_file(file: bytearray, chance: random.Random) -> None:
    """No database at all."""
    file[:] = chance.choice([chance.randbytes(chance.randrange(1, 50_000)), b"# notes\n" * 500, b"{}"])


def torn_last_page(file: bytearray, chance: random.Random) -> None:
    """The end of the last page never reached the disk; SQLite reads it as zeros."""
    del file[-chance.randrange(1, PAGE) :]


def flipped_bytes(file: bytearray, chance: random.Random) -> None:
    """Single bytes changed anywhere; inside a text nobody can notice."""
    for _ in range(chance.randint(1, 40)):
        file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)


Damage = Callable[[bytearray, random.Random], None]

SEEN_BY_SQLITE: tuple[Damage, ...] = (
    bad_header, garbage_page, empty_page, cut_short, torn_at_a_page, another_file,
)  # fmt: skip
# Here the answers may be wrong, for nothing in the file says what was there before.
UNSEEN: tuple[Damage, ...] = (swapped_pages, torn_last_page, flipped_bytes)


def spoil(path: Path, how: Damage, chance: random.Random) -> None:
    """Change the file as chance wants it."""
    file = bytearray(path.read_bytes())
    how(file, chance)
    path.write_bytes(file)


def _page(file: bytearray, chance: random.Random) -> int:
    return PAGE * chance.randrange(1, len(file) // PAGE)
