"""Compares the output on a page with real output, except for what differs between runs (ids, times, tokens)."""

from __future__ import annotations

import difflib
import re
from typing import Final

ID_PREFIXES: Final = "wf|tk|cp|ws|rp|tmpl|ag|msg|thr|tw|ph|tt|dc|is|ml|rv|nt|pf|ap|rn|at|rw|nc|nm"

# Ids on a page are placeholders: each represents one real id on the whole page.
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


class PageIds:
    """Maps the ids on a page to the ids of this run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def substitute_ids(self, command: str) -> str:
        """Replace the page's ids in a command by the ids of this run."""
        return _NAMED.sub(lambda found: self._real.get(found[0], found[0]), command)

    def match_output(self, shown: str, printed: str, *, goes_on: bool = False) -> str:
        """Compare the outputs and remember the ids; return a diff, or an empty string if they match.

        A program that still runs (`goes_on`) may have printed more than the page shows.
        """
        pattern, groups = self._build_pattern(shown)
        match = (pattern.match if goes_on else pattern.fullmatch)(_normalize(printed))
        if match is None:
            return _format_difference(shown, printed)
        self._real.update({name: match[group] for name, group in groups.items()})
        return ""

    def _build_pattern(self, shown: str) -> tuple[re.Pattern[str], dict[str, str]]:
        groups: dict[str, str] = {}
        lines = [self._build_line_pattern(line, groups) for line in _normalize(shown).splitlines()]
        return re.compile("".join(lines)), groups

    def _build_line_pattern(self, line: str, groups: dict[str, str]) -> str:
        if line.strip() == _ELLIPSIS:
            return r"(?:.*\n)*"
        parts, end = [], 0
        for found in _VARIES.finditer(line):
            parts += [re.escape(line[end : found.start()]), self._build_variable_pattern(found, groups)]
            end = found.end()
        return "".join([*parts, re.escape(line[end:])]) + r"\n"

    def _build_variable_pattern(self, found: re.Match[str], groups: dict[str, str]) -> str:
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


def _normalize(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _format_difference(shown: str, printed: str) -> str:
    return "\n".join(
        difflib.unified_diff(
            _normalize(shown).splitlines(), _normalize(printed).splitlines(), "shown", "printed", lineterm=""
        )
    )
