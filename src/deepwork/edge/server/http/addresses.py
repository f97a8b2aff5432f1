"""Resolves and binds the listening address; refuses public ones without a token."""

from __future__ import annotations

import errno
import ipaddress
import socket
import unicodedata

from deepwork.kernel.errors import DefinitionError

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
