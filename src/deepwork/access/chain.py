"""The chain of the record: each row's digest covers the row before, so none can be changed alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from deepwork.access.models import Entry, Head, Link

MAX_IDS = 20
DONE, REPEATED = "done", "repeated"
_ID = re.compile(r"(wf|tk|cp|ws|rp|tmpl|ag|msg|thr|tw|ph|tt|dc|is|ml|rv)_[0-9a-z]{12}")


@dataclass(frozen=True)
class Verdict:
    """What a look at the whole record found."""

    rows: int
    chain: str
    """That of the last good row: kept elsewhere, it proves that nothing up to here was rewritten."""
    bad_row: int | None = None
    problem: str | None = None


def content(entry: Entry) -> str:
    """An entry as one text, the same wherever it is computed."""
    # Not `astuple`, which copies every value and takes longer than all the rest.
    return json.dumps(list(vars(entry).values()), separators=(",", ":"))


def linked(before: str, seq: int, entry: Entry) -> str:
    """The chain of the row with this number."""
    return sha256(f"{before}:{seq}:{content(entry)}".encode()).hexdigest()


def verified(links: Iterable[Link], head: Head) -> Verdict:
    """Follow the chain; the first row that does not belong where it is ends it."""
    seq, chain = 0, ""
    for link in links:
        if link.seq != seq + 1:
            return Verdict(seq, chain, seq + 1, f"row {seq + 1} is missing")
        if not _is_linked(chain, link):
            return Verdict(seq, chain, link.seq, f"row {link.seq} is not what was written")
        seq, chain = link.seq, link.chain
    if seq < head.seq:
        return Verdict(seq, chain, seq + 1, f"rows {seq + 1} to {head.seq} are missing at the end")
    if Head(seq, chain) != head:
        return Verdict(seq, chain, head.seq + 1, f"the record should end with row {head.seq}, and does not")
    return Verdict(seq, chain)


def _is_linked(before: str, link: Link) -> bool:
    try:
        return linked(before, link.seq, link.entry) == link.chain
    except TypeError:  # not even a text
        return False


def told(parameters: Iterable[str], given: Mapping[str, Any]) -> str:
    """What is written down of the arguments: the names that the tool knows, and ids; never a text."""
    return json.dumps(
        {name: _ids(given[name]) for name in parameters if name in given}, separators=(",", ":")
    )


def digest(given: Mapping[str, Any]) -> str:
    """The arguments as a digest: whoever knows them can show that it was these."""
    return sha256(json.dumps(given, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def outcome(answer: Any) -> str:
    """What came of a call that was answered."""
    if isinstance(answer, dict) and answer.get("success") is False:
        return f"refused:{answer['reason']}" if isinstance(answer.get("reason"), str) else "refused"
    return DONE


def _ids(value: Any) -> Any:
    if isinstance(value, str):
        return value if _ID.fullmatch(value) else None
    if isinstance(value, list):
        found = [item for item in value[:MAX_IDS] if isinstance(item, str) and _ID.fullmatch(item)]
        return found or None
    return None
