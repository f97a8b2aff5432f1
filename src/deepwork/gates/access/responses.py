"""Answers of the token tools."""

from __future__ import annotations

from typing import Self

from deepwork.gates.access.models import Token
from deepwork.gates.access.scopes import Scope
from deepwork.kernel.answers import Answer


class TokenView(Answer):
    """A token without its secret."""

    name: str
    id: str
    scope: Scope
    status: str
    created_by: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None
    is_person: bool = False

    @classmethod
    def from_token(cls, token: Token, now: int) -> Self:
        hidden = {"digest", "key_digest"}
        shown = {key: value for key, value in vars(token).items() if key not in hidden}
        return cls(**shown, status=_format_status(token, now))


class NewToken(Answer):
    """A new token; its secret is returned only once."""

    name: str
    scope: Scope
    token: str
    expires_at: int | None = None
    is_person: bool = False


class Tokens(Answer):
    tokens: list[TokenView]


class Revoked(Answer):
    name: str
    revoked_at: int


def _format_status(token: Token, now: int) -> str:
    if token.is_valid(now):
        return "valid"
    return "expired" if token.revoked_at is None or token.revoked_at == token.expires_at else "revoked"
