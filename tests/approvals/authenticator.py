"""A passkey in software: it answers as a browser and an authenticator do together, right or wrong on purpose."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

ORIGIN = "http://localhost:8765"
USER_PRESENT, USER_VERIFIED, HAS_CREDENTIAL = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    """One passkey; its counter grows with every answer, unless several devices share it."""

    credential_id: bytes = b"passkey of the tests"
    relying_party: str = "localhost"
    is_shared: bool = False
    count: int = 0
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def register(
        self, challenge: bytes, origin: str = ORIGIN, *, flags: int = USER_PRESENT | USER_VERIFIED
    ) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
        public_key = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        length = len(self.credential_id).to_bytes(2, "big")
        data = self._build_data(flags | HAS_CREDENTIAL) + bytes(16) + length + self.credential_id + public_key
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = _describe_client("webauthn.create", challenge, origin)
        return self._wrap({"clientDataJSON": encode(client), "attestationObject": encode(attestation)})

    def answer(
        self,
        challenge: str,
        origin: str = ORIGIN,
        *,
        flags: int = USER_PRESENT | USER_VERIFIED,
        kind: str = "webauthn.get",
        relying_party: str | None = None,
    ) -> dict[str, Any]:
        self.count += 0 if self.is_shared else 1
        data = self._build_data(flags, relying_party)
        client = _describe_client(kind, bytes.fromhex(challenge), origin)
        signature = self.key.sign(data + sha256(client).digest(), ec.ECDSA(SHA256()))
        texts = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return self._wrap({name: encode(content) for name, content in texts.items()})

    def _build_data(self, flags: int, relying_party: str | None = None) -> bytes:
        host = sha256((relying_party or self.relying_party).encode()).digest()
        return host + bytes([flags]) + self.count.to_bytes(4, "big")

    def _wrap(self, response: dict[str, str]) -> dict[str, Any]:
        id = encode(self.credential_id)
        return {"id": id, "rawId": id, "type": "public-key", "response": response}


def encode(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _describe_client(kind: str, challenge: bytes, origin: str) -> bytes:
    return json.dumps({"type": kind, "challenge": encode(challenge), "origin": origin}).encode()
