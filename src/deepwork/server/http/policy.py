"""Authorises requests by their headers alone; pure functions without ASGI."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from urllib.parse import urlsplit

from deepwork.access import rules
from deepwork.access.models import OWNER, Token
from deepwork.access.scopes import Scope

OPEN_PATHS = frozenset({"/health"})
MCP_PATHS = ("/mcp", "/sse", "/messages")


@dataclass(frozen=True)
class RequestInfo:
    """The parts of a request that decide whether it is authorised."""

    method: str
    path: str
    headers: Mapping[str, str]
    query_token: str | None = None
    is_websocket: bool = False


@dataclass(frozen=True)
class AccessPolicy:
    """The allowed hosts, the owner's token, and whether MCP needs a token."""

    hosts: frozenset[str]
    token: str = field(repr=False)
    mcp_needs_token: bool
    cookie_name: str = "deepwork"

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https"))

    @property
    def cookie(self) -> str:
        """The cookie of a browser that logged in with the owner's token: an HMAC, not the token."""
        return self._sign("deepwork cookie")

    def build_cookie(self, token: Token) -> str:
        """Build the cookie for a named token.

        Signed with the owner's token, so that the stored digest alone is not enough to forge it.
        """
        return f"{token.id}.{self._sign(f'deepwork cookie {token.id} {token.digest}')}"

    def _sign(self, text: str) -> str:
        return hmac.new(self.token.encode(), text.encode(), sha256).hexdigest()


@dataclass(frozen=True)
class Admitted:
    """An authorised request; `principal` is the name of its token, if any, and `scope` what it covers."""

    principal: str | None = None
    logs_in: bool = False
    scope: Scope = Scope.ADMIN
    """Requests without a token come from this machine's owner."""
    token_id: str | None = None
    is_person: bool = False
    """Whether it counts as a person's: with the owner's token, or one made for a person."""


_OWNER_ADMITTED = Admitted(OWNER, is_person=True)


@dataclass(frozen=True)
class Refused:
    """A refused request."""

    status: int
    message: str
    suggestion: str = ""
    is_guess: bool = False
    needs: Scope | None = None


def find_token_id(request: RequestInfo, policy: AccessPolicy) -> str | None:
    """Find the id of the named token in a request; None if no lookup in the store is needed."""
    if _check_host(request, policy) or _check_origin(request, policy) or request.path in OPEN_PATHS:
        return None
    if (text := _read_token(request)) is not None:
        parts = None if _equals_securely(text, policy.token) else rules.parse_token(text)
        return parts[0] if parts else None
    id, dot, _ = (_find_cookie(request.headers.get("cookie", ""), policy.cookie_name) or "").partition(".")
    return id if dot and rules.is_token_id(id) else None


def authorize_request(
    request: RequestInfo, policy: AccessPolicy, token: Token | None = None
) -> Admitted | Refused:
    """Authorise a request: an allowed host, no foreign origin, and a token where one is needed.

    `token` is the valid token with the id that `find_token_id` returned.
    """
    if refused := _check_host(request, policy) or _check_origin(request, policy):
        return refused
    if request.path in OPEN_PATHS:
        return Admitted()
    holder = _authenticate(request, policy, token)
    if isinstance(holder, Refused):
        return holder
    if holder is not None:
        return _check_scope(request, holder) or holder
    if is_mcp_path(request.path) and not policy.mcp_needs_token:
        return Admitted()
    return Refused(
        401,
        "This needs a token.",
        "Open the link that `deepwork serve` printed, or send `Authorization: Bearer TOKEN`.",
    )


def is_mcp_path(path: str) -> bool:
    """Whether the path belongs to MCP."""
    return any(path == each or path.startswith(each + "/") for each in MCP_PATHS)


def _check_host(request: RequestInfo, policy: AccessPolicy) -> Refused | None:
    """Refuse unknown host names. Prevents DNS rebinding, where a site points its own name at this machine."""
    if request.headers.get("host", "").lower() in policy.hosts:
        return None
    return Refused(421, "This server does not accept that host name.", "Use the address it printed.")


def _check_origin(request: RequestInfo, policy: AccessPolicy) -> Refused | None:
    """Refuse requests that a browser marks as coming from another site."""
    origin = request.headers.get("origin")
    is_foreign = origin is not None and _normalize_origin(origin) not in policy.origins
    if is_foreign or request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return Refused(403, "Requests from other sites are refused.")
    return None


def _read_token(request: RequestInfo) -> str | None:
    """Read the token from the Authorization header or from the login link."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    if scheme:
        return bearer.strip() if scheme.lower() == "bearer" else ""
    return request.query_token if request.path == "/" and request.method == "GET" else None


def _authenticate(
    request: RequestInfo, policy: AccessPolicy, token: Token | None
) -> Admitted | Refused | None:
    """Authenticate by token or cookie; None if the request has neither."""
    if (text := _read_token(request)) is not None:
        holder = _match_token(text, policy, token)
        return (
            replace(holder, logs_in="authorization" not in request.headers)
            if holder
            else _build_wrong_token()
        )
    # An old cookie, or one of another project on this port, is ignored and does not count as a guess.
    cookie = _find_cookie(request.headers.get("cookie", ""), policy.cookie_name)
    if cookie is None or not _equals_securely(cookie, policy.build_cookie(token) if token else policy.cookie):
        return None
    # Browsers send cookies with requests of any site, so a change must come from our own page.
    if _changes_state(request) and "origin" not in request.headers:
        return Refused(403, "Requests with a cookie must come from this server's own pages.")
    return _admit_token_holder(token) if token else _OWNER_ADMITTED


def _match_token(text: str, policy: AccessPolicy, token: Token | None) -> Admitted | None:
    if _equals_securely(text, policy.token):
        return _OWNER_ADMITTED
    parts = rules.parse_token(text)
    is_right = rules.matches_secret(parts[1] if parts else "", token.digest if token else None)
    return _admit_token_holder(token) if token and is_right else None


def _admit_token_holder(token: Token) -> Admitted:
    return Admitted(token.name, scope=token.scope, token_id=token.id, is_person=token.is_person)


def _check_scope(request: RequestInfo, holder: Admitted) -> Refused | None:
    """Refuse changes with a read-only token; over MCP each tool checks its own scope."""
    if (
        is_mcp_path(request.path)
        or request.is_websocket
        or not _changes_state(request)
        or holder.scope.covers(Scope.WORK)
    ):
        return None
    way_out = "Ask the owner of this server for a token with that scope."
    return Refused(403, f"This needs the scope {Scope.WORK}.", way_out, needs=Scope.WORK)


def _changes_state(request: RequestInfo) -> bool:
    return request.is_websocket or request.method not in {"GET", "HEAD"}


def _build_wrong_token() -> Refused:
    return Refused(
        401, "This token is not valid here.", "Use the link in the server's output.", is_guess=True
    )


def _equals_securely(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _normalize_origin(origin: str) -> str:
    """Normalise an origin to scheme, host and port; return "" for anything else, such as a user name."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return origin.lower() if origin.lower() == f"{parts.scheme}://{parts.netloc}".lower() else ""


def _find_cookie(header: str, name: str) -> str | None:
    """Find one cookie. Parsed by hand: other programs on this host set cookies that strict parsers reject."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for key, _, value in pairs if key == name), None)
