"""Who may pass: every request judged by its headers alone, before anything else sees it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from urllib.parse import urlsplit

from deepwork.access import rules
from deepwork.access.models import OWNER, Scope, Token

OPEN_PATHS = frozenset({"/health"})
MCP_PATHS = ("/mcp", "/sse", "/messages")


@dataclass(frozen=True)
class Seen:
    """What the guard sees of a request."""

    method: str
    path: str
    headers: Mapping[str, str]
    query_token: str | None = None
    is_websocket: bool = False


@dataclass(frozen=True)
class Policy:
    """What is allowed here."""

    hosts: frozenset[str]
    token: str = field(repr=False)
    mcp_needs_token: bool
    cookie_name: str = "deepwork"

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https"))

    @property
    def cookie(self) -> str:
        """What a browser keeps after its login: proof of the token, not the token."""
        return self._proof("deepwork cookie")

    def cookie_of(self, token: Token) -> str:
        """The same for a named token; made with the owner's, so that nobody makes it of what is stored."""
        return f"{token.id}.{self._proof(f'deepwork cookie {token.id} {token.digest}')}"

    def _proof(self, text: str) -> str:
        return hmac.new(self.token.encode(), text.encode(), sha256).hexdigest()


@dataclass(frozen=True)
class Admitted:
    """May pass; `principal` is whoever's token it showed, if any, and `scope` what it covers."""

    principal: str | None = None
    logs_in: bool = False
    scope: Scope = Scope.ADMIN
    """Whoever needs no token is the owner of this machine."""
    token_id: str | None = None


@dataclass(frozen=True)
class Refused:
    """May not pass."""

    status: int
    message: str
    suggestion: str = ""
    is_guess: bool = False
    needs: Scope | None = None


def asks_about(seen: Seen, policy: Policy) -> str | None:
    """The id of the named token that a request shows; None where the store need not be asked."""
    if _wrong_address(seen, policy) or _foreign(seen, policy) or seen.path in OPEN_PATHS:
        return None
    if (text := _token_text(seen)) is not None:
        parts = None if _same(text, policy.token) else rules.split(text)
        return parts[0] if parts else None
    id, dot, _ = (_cookie(seen.headers.get("cookie", ""), policy.cookie_name) or "").partition(".")
    return id if dot and rules.is_token_id(id) else None


def judge(seen: Seen, policy: Policy, known: Token | None = None) -> Admitted | Refused:
    """Whether a request may pass: the right host, no foreign origin, and a token where one is needed.

    `known` is the valid token with the id that `asks_about` told.
    """
    if refused := _wrong_address(seen, policy) or _foreign(seen, policy):
        return refused
    if seen.path in OPEN_PATHS:
        return Admitted()
    holder = _shown(seen, policy, known)
    if isinstance(holder, Refused):
        return holder
    if holder is not None:
        return _too_little(seen, holder) or holder
    if is_mcp(seen.path) and not policy.mcp_needs_token:
        return Admitted()
    return Refused(
        401,
        "This needs a token.",
        "Open the link that `deepwork serve` printed, or send `Authorization: Bearer TOKEN`.",
    )


def is_mcp(path: str) -> bool:
    """Whether the path is the protocol's."""
    return any(path == each or path.startswith(each + "/") for each in MCP_PATHS)


def _wrong_address(seen: Seen, policy: Policy) -> Refused | None:
    """A page that made its own name point here asks under that name: DNS rebinding."""
    if seen.headers.get("host", "").lower() in policy.hosts:
        return None
    return Refused(421, "This server does not answer to that host name.", "Use the address it printed.")


def _foreign(seen: Seen, policy: Policy) -> Refused | None:
    """A page of another site, which a browser marks as such."""
    origin = seen.headers.get("origin")
    is_foreign = origin is not None and _normal(origin) not in policy.origins
    if is_foreign or seen.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return Refused(403, "Requests from other sites are not answered.")
    return None


def _token_text(seen: Seen) -> str | None:
    """The token that a request shows: in its header, or in the link that logs a browser in."""
    scheme, _, bearer = seen.headers.get("authorization", "").partition(" ")
    if scheme:
        return bearer.strip() if scheme.lower() == "bearer" else ""
    return seen.query_token if seen.path == "/" and seen.method == "GET" else None


def _shown(seen: Seen, policy: Policy, known: Token | None) -> Admitted | Refused | None:
    """Whose token the request shows; None if it shows none."""
    if (text := _token_text(seen)) is not None:
        holder = _holder(text, policy, known)
        return replace(holder, logs_in="authorization" not in seen.headers) if holder else _wrong_token()
    # A cookie of another day, or of another project on this port, is no guess: it is no token at all.
    cookie = _cookie(seen.headers.get("cookie", ""), policy.cookie_name)
    if cookie is None or not _same(cookie, policy.cookie_of(known) if known else policy.cookie):
        return None
    # A browser sends its cookie whoever asks it to: what changes something must come from our own page.
    if _changes_something(seen) and "origin" not in seen.headers:
        return Refused(403, "Requests with a cookie must come from this server's own pages.")
    return _named(known) if known else Admitted(OWNER)


def _holder(text: str, policy: Policy, known: Token | None) -> Admitted | None:
    if _same(text, policy.token):
        return Admitted(OWNER)
    parts = rules.split(text)
    is_right = rules.is_secret(parts[1] if parts else "", known.digest if known else None)
    return _named(known) if known and is_right else None


def _named(token: Token) -> Admitted:
    return Admitted(token.name, scope=token.scope, token_id=token.id)


def _too_little(seen: Seen, holder: Admitted) -> Refused | None:
    """What changes something takes more than reading; over MCP each tool says how much."""
    if (
        is_mcp(seen.path)
        or seen.is_websocket
        or not _changes_something(seen)
        or holder.scope.covers(Scope.WORK)
    ):
        return None
    way_out = "Ask whoever runs this server for a token with that scope."
    return Refused(403, f"This needs the scope {Scope.WORK}.", way_out, needs=Scope.WORK)


def _changes_something(seen: Seen) -> bool:
    return seen.is_websocket or seen.method not in {"GET", "HEAD"}


def _wrong_token() -> Refused:
    return Refused(
        401, "This token is not valid here.", "Look for the link in the server's output.", is_guess=True
    )


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _normal(origin: str) -> str:
    """Scheme, host and port as one text; anything more, such as a user name, makes it unknown."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return origin.lower() if origin.lower() == f"{parts.scheme}://{parts.netloc}".lower() else ""


def _cookie(header: str, name: str) -> str | None:
    """One cookie by hand: other programs of this machine send us theirs, in forms that parsers give up on."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for key, _, value in pairs if key == name), None)
