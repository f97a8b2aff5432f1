"""Writes git notes for many commits with one process."""

from __future__ import annotations

from collections.abc import Mapping

from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.refs import IDENTITY, resolve_commit


def write_notes(git: Git, ref: str, notes: Mapping[str, str], message: str, now: int) -> None:
    """Add notes to commits, by hash, on a notes ref such as `refs/notes/deepwork`; replaces older ones.

    The ref moves only if nobody moved it meanwhile. `now` is in Unix seconds.
    """
    before = resolve_commit(git, ref)
    name, email = IDENTITY["GIT_COMMITTER_NAME"], IDENTITY["GIT_COMMITTER_EMAIL"]
    lines = [
        f"commit {ref}\n".encode(),
        f"committer {name} <{email}> {now} +0000\n".encode(),
        _build_data(message),
        f"from {before}\n".encode() if before else b"",
    ]
    for commit, text in notes.items():
        lines += [b"N inline " + check_hash(commit).encode() + b"\n", _build_data(text)]
    git.run("fast-import", "--quiet", "--date-format=raw", input=b"".join(lines) + b"\n")


def _build_data(text: str) -> bytes:
    content = text.encode(errors="replace")
    return b"data %d\n%b\n" % (len(content), content)
