"""Web Push: a message that only one browser can read (RFC 8291), from a server that it knows (RFC 8292)."""

from __future__ import annotations

import hmac
import json
import os
from base64 import urlsafe_b64decode
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.views.notifications.settings import encode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

RECORD_SIZE = 4096
MAX_PLAINTEXT = 3993
"""What push services have to accept: RFC 8291, section 4."""
TOKEN_SECONDS = 12 * 3600
"""How long a token is good for; push services accept at most a day."""
_POINT_BYTES, _AUTH_BYTES, _SALT_BYTES = 65, 16, 16


def is_available() -> bool:
    """Return whether the package is installed that Web Push needs."""
    return find_spec("cryptography") is not None


def _import_ec() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - takes long to import
    except ImportError:
        raise NotAllowed(
            "Web Push needs the package `cryptography`, which is not installed.",
            suggestion="Install it with: pip install 'deepwork[push]'",
        ) from None
    return ec


def generate_key() -> str:
    """Generate the private key of this user's servers, as PEM."""
    ec = _import_ec()
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    pem: bytes = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    return pem.decode()


def get_public_key(pem: str) -> str:
    """Return the public key, as browsers take it."""
    return encode(_to_point(_load_key(pem)))


def require_subscription(public_key: str, auth: str) -> None:
    """Raise InvalidInput unless these are the keys of a browser's subscription."""
    ec = _import_ec()
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(public_key))
        is_valid = len(decode(auth)) == _AUTH_BYTES
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidInput("These are not the keys of a browser's subscription.")


def encrypt(content: bytes, public_key: str, auth: str) -> bytes:
    """Encrypt a message for a browser, with a key and a salt that are used once."""
    ec = _import_ec()
    return encrypt_with(
        ec.generate_private_key(ec.SECP256R1()), os.urandom(_SALT_BYTES), content, public_key, auth
    )


def encrypt_with(
    key: EllipticCurvePrivateKey, salt: bytes, content: bytes, public_key: str, auth: str
) -> bytes:
    """Encrypt as one record of `aes128gcm` (RFC 8188), with the keys of RFC 8291."""
    ec = _import_ec()
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    if len(content) > MAX_PLAINTEXT:
        raise InvalidInput(f"A push message has at most {MAX_PLAINTEXT} bytes.")
    theirs, ours = decode(public_key), _to_point(key)
    shared = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    secret = derive(decode(auth), shared, b"WebPush: info\0" + theirs + ours, 32)
    encryption_key = derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = derive(salt, secret, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_SIZE.to_bytes(4, "big") + bytes([len(ours)]) + ours
    return head + AESGCM(encryption_key).encrypt(nonce, content + b"\x02", None)


def derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """Derive up to 32 bytes: HKDF with SHA-256, of which one block is enough."""
    extracted = hmac.new(salt, secret, sha256).digest()
    return hmac.new(extracted, info + b"\x01", sha256).digest()[:length]


def build_authorization(pem: str, endpoint: str, contact: str, now: int) -> str:
    """Build the header that says who sends: a token for this push service, signed with ES256.

    `contact`: an https address that the push service may show its operators; left out if it is another one.
    """
    key, parts = _load_key(pem), urlsplit(endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": now // 1000 + TOKEN_SECONDS}
    claims |= {"sub": contact} if contact.startswith("https://") else {}
    signed = ".".join(encode(json.dumps(each).encode()) for each in ({"typ": "JWT", "alg": "ES256"}, claims))
    return f"vapid t={signed}.{encode(_sign(key, signed.encode()))}, k={encode(_to_point(key))}"


def _sign(key: EllipticCurvePrivateKey, content: bytes) -> bytes:
    ec = _import_ec()
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    numbers = decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
    return b"".join(number.to_bytes(32, "big") for number in numbers)


def decode(text: str) -> bytes:
    """Decode base64url without padding; raises ValueError for anything else."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _load_key(pem: str) -> EllipticCurvePrivateKey:
    _import_ec()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    key: Any = load_pem_private_key(pem.encode(), None)
    return key  # type: ignore[no-any-return]


def _to_point(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
