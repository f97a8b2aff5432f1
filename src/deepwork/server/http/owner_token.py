"""The owner's token: the configured one, or one generated and stored for this project."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from deepwork.errors import DefinitionError
from deepwork.files.atomic import write_atomically

MIN_LENGTH = 16


def load_token(configured: str, file: Path) -> str:
    """Return the configured token, else load or create the stored one; there is always one."""
    if configured:
        if len(configured) < MIN_LENGTH:
            raise DefinitionError(
                f"DEEPWORK_TOKEN has fewer than {MIN_LENGTH} characters.",
                suggestion="Generate one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        return configured
    return _read_token_file(file) or _create_token_file(file)


def _read_token_file(file: Path) -> str | None:
    try:
        status = file.stat(follow_symlinks=False)
        # Others could have read or written this file, so its token is not a secret: create another.
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return token if len(token) >= MIN_LENGTH else None


def _create_token_file(file: Path) -> str:
    token = f"dw_{secrets.token_urlsafe(32)}"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(file, token.encode() + b"\n")
    return token
