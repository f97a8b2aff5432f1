"""What a page shows against what was printed: equal, save for what differs from run to run."""

from __future__ import annotations

import difflib
import re
from typing import Final

ID_PREFIXES: Final = "wf|tk|cp|ws|rp|tmpl|ag|msg|thr|tw|ph|tt|dc|is|ml|rv"

# As the page writes it, and as a run prints it. An id stands for the same id on the whole page.
_SHOWN_ID = rf"(?<![\w-])(?:{ID_PREFIXES})_(?:[0-9a-z]{{12}}|(?=[a-z]*\d)[0-9a-z]{{1,11}})(?![\w])"
_SHOWN_SESSION = r"(?<![\w./-])(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{8}(?![\w.-])"
_TIME = r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?|\b1\d{12}\b)"
_VERSION = r"\b\d+\.\d+\.\d+\b"
_TOKEN = r"\bdw_[\w-]+"
_ELLIPSIS = "…"

_VARIES = re.compile(
    f"(?P<id>{_SHOWN_ID})|(?P<session>{_SHOWN_SESSION})|(?P<time>{_TIME})|(?P<version>{_VERSION})"
    f"|(?P<token>{_TOKEN}…?)|(?P<any>{_ELLIPSIS})|(?P<space> +)"
)
_NAMED = re.compile(f"{_SHOWN_ID}|{_SHOWN_SESSION}")


class Names:
    """The ids of a page, and what they are called in this run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def used_in(self, command: str) -> str:
        """The command with the ids of this run in place of the page's."""
        return _NAMED.sub(lambda found: self._real.get(found[0], found[0]), command)

    def learn(self, shown: str, printed: str) -> str:
        """Take the ids from what was printed; what differs is the answer, else nothing."""
        pattern, groups = self._pattern(shown)
        match = pattern.fullmatch(_tidy(printed))
        if match is None:
            return _difference(shown, printed)
        self._real.update({name: match[group] for name, group in groups.items()})
        return ""

    def _pattern(self, shown: str) -> tuple[re.Pattern[str], dict[str, str]]:
        groups: dict[str, str] = {}
        lines = [self._line(line, groups) for line in _tidy(shown).splitlines()]
        return re.compile("".join(lines)), groups

    def _line(self, line: str, groups: dict[str, str]) -> str:
        if line.strip() == _ELLIPSIS:
            return r"(?:.*\n)*"
        parts, end = [], 0
        for found in _VARIES.finditer(line):
            parts += [re.escape(line[end : found.start()]), self._varying(found, groups)]
            end = found.end()
        return "".join([*parts, re.escape(line[end:])]) + r"\n"

    def _varying(self, found: re.Match[str], groups: dict[str, str]) -> str:
        name, kind = found[0], found.lastgroup
        if kind in {"id", "session"}:
            if name in self._real:
                return re.escape(self._real[name])
            if name in groups:
                return f"(?P={groups[name]})"
            groups[name] = f"g{len(groups)}"
            form = "[0-9a-z]{8}" if kind == "session" else rf"{name.split('_')[0]}_[0-9a-z]{{12}}"
            return f"(?P<{groups[name]}>{form})"
        return {"time": _TIME, "version": _VERSION, "token": _TOKEN, "any": ".*", "space": " +"}[str(kind)]


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _difference(shown: str, printed: str) -> str:
    return "\n".join(
        difflib.unified_diff(
            _tidy(shown).splitlines(), _tidy(printed).splitlines(), "shown", "printed", lineterm=""
        )
    )
