"""Anchors of the audit log: a signed note of its end shows later that nothing before it is missing.

The chain alone cannot show that its last entries were removed and its head was set back; pure functions.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

from deepwork.gates.access.models import ChainHead, ChainKey

_ANCHOR_PATTERN = re.compile(r"dwa1\.([0-9a-f]{1,64})\.(\d{1,18})\.([0-9a-f]{0,64})\.([0-9a-f]{64})")


@dataclass(frozen=True)
class Anchor:
    """The end of the audit log of one store at some time, signed with the key of the store."""

    store_id: str
    head: ChainHead
    signature: str


def create_anchor(head: ChainHead, key: ChainKey) -> str:
    """Create the text of an anchor."""
    return f"dwa1.{key.store_id}.{head.seq}.{head.chain}.{_sign(head, key)}"


def parse_anchor(text: str) -> Anchor | None:
    """Parse the text of an anchor; None if it is none."""
    found = _ANCHOR_PATTERN.fullmatch(text.strip())
    return Anchor(found[1], ChainHead(int(found[2]), found[3]), found[4]) if found else None


def find_anchor_problem(anchor: Anchor, last: int, chain: str | None, key: ChainKey) -> str | None:
    """Compare the log with an anchor: its last number, and its hash at the number of the anchor."""
    if anchor.store_id != key.store_id:
        return "the anchor belongs to another store, or this one was adopted or replaced since"
    if not hmac.compare_digest(anchor.signature, _sign(anchor.head, key)):
        return "the anchor was changed, or not made with the key of this store"
    if anchor.head.seq > last:
        return f"the log ends with row {last}, but it had {anchor.head.seq} rows: its end was cut off"
    if anchor.head.seq and chain != anchor.head.chain:
        return f"row {anchor.head.seq} is not the one of the anchor: the log was rewritten"
    return None


def _sign(head: ChainHead, key: ChainKey) -> str:
    return key.digest(f"anchor:{key.store_id}:{head.seq}:{head.chain}")
