"""Names that only people and deepwork itself may have, and names that look like them."""

from __future__ import annotations

import re
from typing import Any

from deepwork.kernel.call import PERSON_PREFIX, is_person
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import quote_line, remove_invisible

_RESERVED = frozenset({PERSON_PREFIX.removesuffix(":"), "owner", "deepwork"})


def require_unreserved(parameter: str, name: Any, caller: str) -> None:
    """Raise InvalidInput if the name is reserved. People may use it, and callers their own name."""
    if is_person(caller) or name == caller or not is_reserved(name):
        return
    raise InvalidInput(
        f"`{parameter}`: {quote_line(name, 60)} is reserved for people and for deepwork itself.",
        suggestion="Choose a name that does not look like `human:...`, `owner` or `deepwork`.",
    )


def is_reserved(name: Any) -> bool:
    """Return whether a name is `human:...`, `owner` or `deepwork`, or looks like one of them."""
    if not isinstance(name, str):
        return False
    return any(
        form.startswith(PERSON_PREFIX) or form.rstrip(_SIGNS) in _RESERVED for form in _list_forms(name)
    )


def looks_like_person(name: str) -> bool:
    """Return whether a name begins as `human:...`, or looks like that."""
    return any(form.startswith(PERSON_PREFIX) for form in _list_forms(name[:_MAX_BEGINNING]))


_MAX_BEGINNING = 200
"""How much of a text can be in front of the end of `human:`: signs, spaces and what is invisible."""


def _list_forms(name: str) -> tuple[str, str]:
    plain = _fold(name)
    return plain, plain.replace("rn", "m").replace("vv", "w")


_SIGNS = "".join(chr(code) for code in range(0x21, 0x7F) if not chr(code).isalnum())


def _fold(name: str) -> str:
    """Reduce a name to what it looks like: small Latin letters, without marks, spaces and leading signs."""
    visible = remove_invisible(name)
    if not visible.isascii():
        import unicodedata  # noqa: PLC0415 - most names are ASCII

        apart = unicodedata.normalize("NFKD", visible.translate(_LETTERS))
        unmarked = "".join(each for each in apart if not unicodedata.combining(each))
        visible = unmarked.translate(_LETTERS).casefold().translate(_LETTERS)
    plain = visible.casefold().replace("0", "o")
    return re.sub(r"\s+", "", plain).lstrip(_SIGNS)


# Letters of other scripts, phonetic letters and small capitals; NFKD handles fonts, circles and full width.
_LOOK_ALIKES = {
    "a": "АаΑαᎪꓮᗅɑᴀⲀⲁ",
    "d": "ԁԀᎠꓓᗞᗪᴅɖɗđ",
    "e": "ЕеΕεᎬꓰҽєᴇəⲈⲉɛ",
    "h": "ҺһНнΗհᎻᏂꓧᕼʜħɦⱨⲎⲏ",
    "k": "КкΚκᏦꓗᴋƙĸⲔⲕ",
    "m": "МмΜᎷꓟᗰᴍɱɯⲘⲙ",
    "n": "ΝηոռпᑎꓠɴɲɳŋПⲚⲛ",
    "o": "ОоΟοσօՕᎾꓳᴏøɵⲞⲟㅇ〇○◯",
    "p": "РрΡρᏢꓑᑭᴘⲢⲣ",
    "r": "гГᎡᏒꓣᖇʀɾɼᴦ",
    "u": "սՍυцꓴᑌᴜʋʊՄμ",
    "w": "ԜԝѡѠωᎳᏔꓪᴡɯⲰⲱɰ",
    ":": "：︓﹕꞉ː∶ˑ։׃܃܄ꓽ᛬⁝⁚⦂፡᠄︰∷",  # noqa: RUF001
}


def _build_letters() -> dict[int, str]:
    letters = {ord(look_alike): letter for letter, found in _LOOK_ALIKES.items() for look_alike in found}
    for first in (0x1F150, 0x1F170, 0x1F1E6):  # white on black, and the letters that make flags
        letters |= {first + place: chr(ord("a") + place) for place in range(26)}
    return letters


_LETTERS = _build_letters()
