"""Who may send which request, from where."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import re
import socket
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from hashlib import sha256
from urllib.parse import urlsplit

from deepwork.edge.server.http.owner_token import LoginCodes
from deepwork.gates.access import models
from deepwork.gates.access.models import OWNER, Scope, Token
from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.records import dataclass

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
NEXT_PORTS = 20
MAX_PORT = 65_535


def require_safe_address(host: str, *, has_token: bool) -> str:
    """Return the address to bind; raise if other machines can reach it and no token is set."""
    address = resolve_host(host)
    if not is_loopback(address) and not has_token:
        raise DefinitionError(
            f"{host or 'an empty address'} can be reached by other machines, and no token is set.",
            suggestion="Set DEEPWORK_TOKEN to a long random string, or listen on 127.0.0.1.",
        )
    return address


def resolve_host(host: str) -> str:
    """Resolve a host in any spelling; an empty string, `*` and `0` mean all interfaces."""
    text = unicodedata.normalize("NFKC", host).strip().strip("[]")
    if text in {"", "*"}:
        return "0.0.0.0"  # noqa: S104 - refused by the caller
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DefinitionError(
            f"Cannot resolve the address {host!r}.",
            suggestion="Use 127.0.0.1, or an address of this machine.",
        ) from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    # A name with several addresses is only as safe as its least safe address.
    return next((address for address in addresses if not is_loopback(address)), addresses[0])


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    ip = ipaddress.ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)


def bind_socket(address: str, port: int) -> socket.socket:
    """Bind a listening socket; the error for a used port suggests a free one."""
    try:
        return _open_listener(address, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise DefinitionError(f"Cannot listen on {address}:{port}: {error.strerror}.") from error
        candidates = range(port + 1, min(port + NEXT_PORTS, MAX_PORT) + 1)
        free = next((each for each in candidates if _is_free(address, each)), None)
        raise DefinitionError(
            f"Port {port} is taken.",
            suggestion=f"Use --port {free}." if free else "Choose a free port with --port.",
        ) from error


def format_url(address: str, port: int) -> str:
    """Format the URL of an address and port."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _open_listener(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is named; otherwise every answer waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(512)
    except OSError:
        made.close()
        raise
    return made


def _is_free(address: str, port: int) -> bool:
    try:
        _open_listener(address, port).close()
    except OSError:
        return False
    return True


OPEN_PATHS = frozenset({"/health"})
MCP_PATHS = ("/mcp", "/sse", "/messages")
COOKIE_SECONDS = 7 * 24 * 3600
"""How long a browser stays signed in."""
COOKIE_PARTS = 3


@dataclass(frozen=True)
class RequestInfo:
    """The parts of a request that decide whether it is authorised."""

    method: str
    path: str
    headers: Mapping[str, str]
    query_token: str | None = None
    is_websocket: bool = False
    login_code: str | None = None


@dataclass(frozen=True)
class AccessPolicy:
    """The allowed hosts, the owner's token, and whether MCP needs a token."""

    hosts: frozenset[str]
    token: str = field(repr=False)
    mcp_needs_token: bool
    cookie_name: str = "deepwork"
    clock: Callable[[], float] = field(default=time.time, repr=False, compare=False)
    codes: LoginCodes = field(default_factory=LoginCodes, repr=False, compare=False)

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https"))

    def build_cookie(self, token: Token | None = None) -> str:
        """Build the cookie of a browser that signs in now, with the owner's token or a named one."""
        return self.sign_cookie(token, int(self.clock()) + COOKIE_SECONDS)

    def sign_cookie(self, token: Token | None, expires_at: int) -> str:
        """Build the cookie that ends at this time.

        Signed with the owner's token, so that the stored digest alone is not enough to forge it.
        """
        id, digest = (token.id, token.digest) if token else (OWNER, "")
        return f"{id}.{expires_at}.{self._sign(f'deepwork cookie {id} {digest} {expires_at}')}"

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
    expires_at: int | None = None
    """When the cookie of the request expires, in seconds; None if it has a token."""


_OWNER_ADMITTED = Admitted(OWNER, is_person=True)


@dataclass(frozen=True)
class RefusedRequest:
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
        parts = None if _equals_securely(text, policy.token) else models.parse_token(text)
        return parts[0] if parts else None
    id = _read_cookie(request, policy).partition(".")[0]
    return id if models.is_token_id(id) else None


def authorize_request(
    request: RequestInfo, policy: AccessPolicy, token: Token | None = None, *, has_valid_code: bool = False
) -> Admitted | RefusedRequest:
    """Authorise a request: an allowed host, no foreign origin, and a token where one is needed.

    `token` is the valid token with the id that `find_token_id` returned; `has_valid_code` tells whether the
    request has a login code that was redeemed for it.
    """
    if refused := _check_host(request, policy) or _check_origin(request, policy):
        return refused
    if request.path in OPEN_PATHS:
        return Admitted()
    holder = (
        _authenticate_by_code(is_valid=has_valid_code)
        if is_code_login(request)
        else _authenticate(request, policy, token)
    )
    if isinstance(holder, RefusedRequest):
        return holder
    if holder is not None:
        return _check_scope(request, holder) or holder
    if is_mcp_path(request.path) and not policy.mcp_needs_token:
        return Admitted()
    return RefusedRequest(
        401,
        "This needs a token.",
        "Open the link that `deepwork dashboard` or `deepwork serve` printed, or send"
        " `Authorization: Bearer TOKEN`.",
    )


def is_mcp_path(path: str) -> bool:
    """Whether the path belongs to MCP."""
    return any(path == each or path.startswith(each + "/") for each in MCP_PATHS)


def is_code_login(request: RequestInfo) -> bool:
    """Whether the request signs in with a login code, and with nothing else."""
    is_link = request.path == "/" and request.method == "GET" and not request.is_websocket
    return is_link and request.login_code is not None and "authorization" not in request.headers


def _check_host(request: RequestInfo, policy: AccessPolicy) -> RefusedRequest | None:
    """Refuse unknown host names. Prevents DNS rebinding, where a site points its own name at this machine."""
    if request.headers.get("host", "").lower() in policy.hosts:
        return None
    return RefusedRequest(421, "This server does not accept that host name.", "Use the address it printed.")


def _check_origin(request: RequestInfo, policy: AccessPolicy) -> RefusedRequest | None:
    """Refuse requests that a browser marks as coming from another site."""
    origin = request.headers.get("origin")
    is_foreign = origin is not None and _normalize_origin(origin) not in policy.origins
    if is_foreign or request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return RefusedRequest(403, "Requests from other sites are refused.")
    return None


def _read_token(request: RequestInfo) -> str | None:
    """Read the token from the Authorization header or from the login link."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    if scheme:
        return bearer.strip() if scheme.lower() == "bearer" else ""
    return request.query_token if request.path == "/" and request.method == "GET" else None


def _authenticate_by_code(*, is_valid: bool) -> Admitted | RefusedRequest:
    return replace(_OWNER_ADMITTED, logs_in=True) if is_valid else _build_wrong_code()


def _authenticate(
    request: RequestInfo, policy: AccessPolicy, token: Token | None
) -> Admitted | RefusedRequest | None:
    """Authenticate by token or cookie; None if the request has neither."""
    if (text := _read_token(request)) is not None:
        holder = _match_token(text, policy, token)
        return (
            replace(holder, logs_in="authorization" not in request.headers)
            if holder
            else _build_wrong_token()
        )
    # An old cookie, or one of another project on this port, is ignored and does not count as a guess.
    if (expires_at := _verify_cookie(_read_cookie(request, policy), policy, token)) is None:
        return None
    # Browsers send cookies with requests of any site, so a change must come from our own page.
    if _changes_state(request) and "origin" not in request.headers:
        return RefusedRequest(403, "Requests with a cookie must come from this server's own pages.")
    return replace(_admit_token_holder(token) if token else _OWNER_ADMITTED, expires_at=expires_at)


def _verify_cookie(cookie: str, policy: AccessPolicy, token: Token | None) -> int | None:
    """Return when the cookie expires; None if it has expired, or is not one of ours for this token."""
    parts = cookie.split(".")
    if len(parts) != COOKIE_PARTS or not re.fullmatch(r"[0-9]{1,12}", parts[1]):
        return None
    expires_at = int(parts[1])
    is_ours = _equals_securely(cookie, policy.sign_cookie(token, expires_at))
    return expires_at if is_ours and policy.clock() < expires_at else None


def _match_token(text: str, policy: AccessPolicy, token: Token | None) -> Admitted | None:
    if _equals_securely(text, policy.token):
        return _OWNER_ADMITTED
    parts = models.parse_token(text)
    is_right = models.matches_secret(parts[1] if parts else "", token)
    return _admit_token_holder(token) if token and is_right else None


def _admit_token_holder(token: Token) -> Admitted:
    return Admitted(token.name, scope=token.scope, token_id=token.id, is_person=token.is_person)


def _check_scope(request: RequestInfo, holder: Admitted) -> RefusedRequest | None:
    """Refuse changes with a read-only token; over MCP each tool checks its own scope."""
    if (
        is_mcp_path(request.path)
        or request.is_websocket
        or not _changes_state(request)
        or holder.scope.covers(Scope.WORK)
    ):
        return None
    way_out = "Ask the owner of this server for a token with that scope."
    return RefusedRequest(403, f"This needs the scope {Scope.WORK}.", way_out, needs=Scope.WORK)


def _changes_state(request: RequestInfo) -> bool:
    return request.is_websocket or request.method not in {"GET", "HEAD"}


def _build_wrong_token() -> RefusedRequest:
    return RefusedRequest(
        401, "This token is not valid here.", "Use the link in the server's output.", is_guess=True
    )


def _build_wrong_code() -> RefusedRequest:
    return RefusedRequest(
        401,
        "This link was used before, or is older than a minute.",
        "Open the link that `deepwork serve` or `deepwork dashboard` printed.",
        is_guess=True,
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


def _read_cookie(request: RequestInfo, policy: AccessPolicy) -> str:
    """Read our cookie, or "". By hand: other programs on this host set cookies that strict parsers reject."""
    pairs = (part.strip().partition("=") for part in request.headers.get("cookie", "").split(";"))
    return next((value for key, _, value in pairs if key == policy.cookie_name), "")
