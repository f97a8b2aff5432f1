"""Where to listen, and when that is too far."""

from __future__ import annotations

import errno
import ipaddress
import socket
import unicodedata

from deepwork.errors import DefinitionError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
NEXT_PORTS = 20
MAX_PORT = 65_535


def require_safe(host: str, *, has_token: bool) -> str:
    """The address to bind; one that others can reach is refused unless they need a token."""
    address = resolved(host)
    if not is_loopback(address) and not has_token:
        raise DefinitionError(
            f"{host or 'an empty address'} can be reached by other machines, and no token is set.",
            suggestion="Set DEEPWORK_TOKEN to a long random text, or listen on 127.0.0.1.",
        )
    return address


def resolved(host: str) -> str:
    """The address that a host means, in whatever spelling: an empty text and `0` mean all there are."""
    text = unicodedata.normalize("NFKC", host).strip().strip("[]")
    if text in {"", "*"}:
        return "0.0.0.0"  # noqa: S104 - to be refused
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DefinitionError(
            f"There is no address {host!r}.", suggestion="Use 127.0.0.1, or an address of this machine."
        ) from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    # A name that means several addresses is as safe as the least safe of them.
    return next((address for address in addresses if not is_loopback(address)), addresses[0])


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    ip = ipaddress.ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_loopback)


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens there; a taken port is an error that names a free one."""
    try:
        return _listening(address, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise DefinitionError(f"Cannot listen on {address}:{port}: {error.strerror}.") from error
        candidates = range(port + 1, min(port + NEXT_PORTS, MAX_PORT) + 1)
        free = next((each for each in candidates if _is_free(address, each)), None)
        raise DefinitionError(
            f"Port {port} is taken.",
            suggestion=f"Use --port {free}." if free else "Name a free port with --port.",
        ) from error


def url(address: str, port: int) -> str:
    """The address as a browser takes it."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With the protocol named, asyncio switches off Nagle's algorithm; without it every answer waits 40 ms.
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
        _listening(address, port).close()
    except OSError:
        return False
    return True
