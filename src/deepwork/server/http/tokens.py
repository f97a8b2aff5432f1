"""The token that opens the dashboard: the configured one, or one made and kept for this project."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from deepwork.errors import DefinitionError
from deepwork.files.atomic import write_atomically

SHORTEST = 16


def token_of(configured: str, file: Path) -> str:
    """The token to ask for; an unset one is made, never left out."""
    if configured:
        if len(configured) < SHORTEST:
            raise DefinitionError(
                f"DEEPWORK_TOKEN has fewer than {SHORTEST} characters.",
                suggestion="Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        return configured
    return _kept(file) or _made(file)


def _kept(file: Path) -> str | None:
    try:
        status = file.stat(follow_symlinks=False)
        # A file that others could have written or read is no secret: make another.
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return token if len(token) >= SHORTEST else None


def _made(file: Path) -> str:
    token = f"dw_{secrets.token_urlsafe(32)}"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, token.encode() + b"\n")
    return token
