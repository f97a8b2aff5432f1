"""Verifies passkeys: what an authenticator answers to a page of ours (WebAuthn)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deepwork.kernel.errors import Code, InvalidInput, NotAllowed

_MISSING = (
    "Passkeys need the package `webauthn`, which is not installed.",
    "Install it with: pip install 'deepwork[passkey]'",
)


def encode_bytes(content: bytes) -> str:
    """Encode bytes as browsers do for passkeys."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def decode_text(text: str) -> bytes:
    """Decode what `encode_bytes` encoded."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def get_relying_party(origin: str) -> str:
    """Return the name of the site that a passkey belongs to: the host of the page, without its port."""
    return urlsplit(origin).hostname or ""


def can_have_passkeys(origin: str) -> bool:
    """Whether browsers offer passkeys to a page: its host has a name, not only an address."""
    host = get_relying_party(origin)
    return bool(host) and ":" not in host and not host.replace(".", "").isdigit()


def verify_registration(answer: Mapping[str, Any], challenge: bytes, origin: str) -> dict[str, Any]:
    """Verify a new passkey and return what to store of it; raises NotAllowed for one that is not valid."""
    try:
        from webauthn import verify_registration_response  # noqa: PLC0415 - takes long to import
        from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415
    except ImportError:
        raise NotAllowed(_MISSING[0], suggestion=_MISSING[1]) from None
    try:
        found = verify_registration_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=get_relying_party(origin),
            expected_origin=origin,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise _build_refusal(error) from error
    return {
        "credential_id": encode_bytes(found.credential_id),
        "public_key": encode_bytes(found.credential_public_key),
        "relying_party": get_relying_party(origin),
        "sign_count": found.sign_count,
    }


def read_credential_id(answer: Mapping[str, Any]) -> str:
    """Return the id of the passkey that answered."""
    id = answer.get("id")
    if not isinstance(id, str):
        raise InvalidInput("The answer of the passkey has no `id`.")
    return id


def verify_assertion(
    answer: Mapping[str, Any], data: Mapping[str, Any], challenge: str, origin: str, sign_count: int
) -> int:
    """Verify that a person unlocked this passkey for this challenge; returns its new counter."""
    try:
        from webauthn import verify_authentication_response  # noqa: PLC0415 - takes long to import
        from webauthn.helpers.exceptions import WebAuthnException  # noqa: PLC0415
    except ImportError:
        raise NotAllowed(_MISSING[0], suggestion=_MISSING[1]) from None
    try:
        found = verify_authentication_response(
            credential=dict(answer),
            expected_challenge=bytes.fromhex(challenge),
            expected_rp_id=str(data["relying_party"]),
            expected_origin=origin,
            credential_public_key=decode_text(str(data["public_key"])),
            credential_current_sign_count=sign_count,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, KeyError, TypeError) as error:
        raise _build_refusal(error) from error
    return found.new_sign_count


def _build_refusal(error: Exception) -> NotAllowed:
    return NotAllowed(
        f"The answer of the passkey is not valid here: {str(error)[:200]}",
        code=Code.UNAUTHORIZED,
        suggestion="Reload the page and use the passkey again.",
    )
