"""The trees and texts of review rounds."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from deepwork.gates.reviews.deltas import Delta, FileVersion, Tree, render_delta
from deepwork.gates.reviews.rounds import Finding, ReviewPolicy, ReviewScope, Round, list_open_findings
from deepwork.kernel.errors import Code, InvalidInput, StorageError
from deepwork.kernel.files.paths import read_confined
from deepwork.kernel.files.private import read_state_file, remove_old_files, write_atomically

_MAX_CLAIM = 300
_REPEAT_RULE = (
    "Repeat a finding that is not fixed, with its file and line. A new finding on a line that did not change "
    "is recorded, but sends the work back only as a blocker."
)


def render_rules(policy: ReviewPolicy) -> str:
    """Tell a reviewer what a finding is, and which ones send the work back."""
    blocks = " and ".join(each.value for each in policy.blocks)
    return (
        "- List each problem in `findings`: severity (blocker, major or minor), file, line, claim (what is "
        f"wrong) and failure (how it fails). Only {blocks} findings send the work back."
    )


def render_round(
    policy: ReviewPolicy, earlier: Sequence[Round], granted: int = 0, *, shows_changes: bool
) -> str:
    """Tell a reviewer which round this is, what to judge, and which findings are open."""
    if not earlier:
        return ""
    number, last = len(earlier) + 1, policy.rounds + granted
    judge = (
        "Judge only what changed since the last round, shown below, and whether the open findings are fixed."
        if shows_changes
        else "Judge everything again, and whether the open findings are fixed."
    )
    lines = [
        f"This is round {number} of {max(number, last)}; after the last one a person decides. {judge}",
        _REPEAT_RULE,
    ]
    findings = list_open_findings(earlier)
    listed = [f"- {format_finding(each)}" for each in findings] or ["- none with a severity that blocks"]
    return "\n".join([*lines, "", "Open findings:", *listed])


def render_changes(policy: ReviewPolicy, delta: Delta | None) -> str | None:
    """Render what changed since the last round; None if the reviewer is to read everything."""
    return render_delta(delta) if delta is not None and policy.scope is ReviewScope.DELTA else None


def format_finding(finding: Finding) -> str:
    """Format a finding on one line."""
    place = f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file
    failure = f" ({_shorten(finding.failure)})" if finding.failure else ""
    return f"{finding.severity.value} {f'{place}: ' if place else ''}{_shorten(finding.claim)}{failure}"


def format_findings(findings: Iterable[Finding]) -> str:
    return "; ".join(map(format_finding, findings))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CLAIM else f"{line[: _MAX_CLAIM - 1]}…"


MAX_STORED = 1024 * 1024
"""Larger files are not compared line by line: they always count as changed."""
_MAX_AGE_SECONDS = 30 * 24 * 3600
_NAME_PATTERN = re.compile("[0-9a-f]{64}")


class RoundTrees:
    """The judged files of a project: contents named by their hash, and trees that list them.

    A tree that is gone, or was stored on another machine, is not an error: the next round shows everything.
    """

    def __init__(self, root: Path, tmp: Path) -> None:
        self._root, self._folder = root, tmp / "review_trees"

    def read(self, paths: Iterable[str]) -> Tree:
        """Read the files as they are now; one that is missing is left out."""
        found = {path: self._read_file(path) for path in sorted(set(paths))}
        return {path: version for path, version in found.items() if version is not None}

    def save(self, tree: Tree) -> str | None:
        """Store a tree and return its name; None if it cannot be stored."""
        listing = {path: [each.digest, each.text is not None] for path, each in tree.items()}
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_old_files(self._folder, _NAME_PATTERN, _MAX_AGE_SECONDS)
            for each in tree.values():
                if each.text is not None:
                    self._write(each.digest, each.text.encode())
            content = json.dumps(listing).encode()
            name = hashlib.sha256(content).hexdigest()
            self._write(name, content)
        except (OSError, StorageError):
            return None
        return name

    def load(self, name: str | None) -> Tree | None:
        """Load a stored tree; None if it, or a file of it, is gone or damaged."""
        listing = self._load(name) if name else None
        if listing is None:
            return None
        tree: dict[str, FileVersion] = {}
        for path, (digest, is_text) in json.loads(listing).items():
            content = self._load(digest) if is_text else b""
            if content is None:
                return None
            tree[path] = FileVersion(digest, content.decode() if is_text else None)
        return tree

    def _read_file(self, path: str) -> FileVersion | None:
        try:
            content = read_confined(self._root, path, max_bytes=MAX_STORED)
        except InvalidInput as error:
            # Too large to compare: the time makes it differ from every version before.
            return FileVersion(f"large-{time.time_ns()}") if error.code is Code.TOO_LARGE else None
        digest = hashlib.sha256(content).hexdigest()
        try:
            return FileVersion(digest, content.decode())
        except UnicodeDecodeError:
            return FileVersion(digest)

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / name
        try:
            os.utime(path)  # it is needed for longer
        except FileNotFoundError:
            write_atomically(path, content, is_durable=False)

    def _load(self, name: str) -> bytes | None:
        if not _NAME_PATTERN.fullmatch(name):
            return None
        with suppress(OSError):
            content = read_state_file(self._folder / name)
            return content if hashlib.sha256(content).hexdigest() == name else None
        return None
