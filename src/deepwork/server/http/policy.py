"""Who may pass: every request judged by its headers alone, before anything else sees it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlsplit

OWNER = "owner"
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
        return hmac.new(self.token.encode(), b"deepwork cookie", sha256).hexdigest()


@dataclass(frozen=True)
class Admitted:
    """May pass; `principal` is whoever's token it showed, if any."""

    principal: str | None = None
    logs_in: bool = False


@dataclass(frozen=True)
class Refused:
    """May not pass."""

    status: int
    message: str
    suggestion: str = ""
    is_guess: bool = False


def judge(seen: Seen, policy: Policy) -> Admitted | Refused:
    """Whether a request may pass: the right host, no foreign origin, and a token where one is needed."""
    if refused := _wrong_address(seen, policy) or _foreign(seen, policy):
        return refused
    if seen.path in OPEN_PATHS:
        return Admitted()
    principal = _shown(seen, policy)
    if isinstance(principal, Refused):
        return principal
    if principal is not None:
        return Admitted(principal, logs_in=seen.query_token is not None)
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


def _shown(seen: Seen, policy: Policy) -> str | Refused | None:
    """Whose token the request shows; None if it shows none."""
    scheme, _, bearer = seen.headers.get("authorization", "").partition(" ")
    if scheme:
        is_right = scheme.lower() == "bearer" and _same(bearer.strip(), policy.token)
        return OWNER if is_right else _wrong_token()
    if seen.query_token is not None and seen.path == "/" and seen.method == "GET":
        return OWNER if _same(seen.query_token, policy.token) else _wrong_token()
    # A cookie of another day, or of another project on this port, is no guess: it is no token at all.
    cookie = _cookie(seen.headers.get("cookie", ""), policy.cookie_name)
    if cookie is None or not _same(cookie, policy.cookie):
        return None
    # A browser sends its cookie whoever asks it to: what changes something must come from our own page.
    changes_something = seen.is_websocket or seen.method not in {"GET", "HEAD"}
    if changes_something and "origin" not in seen.headers:
        return Refused(403, "Requests with a cookie must come from this server's own pages.")
    return OWNER


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
