"""A push service, a webhook and a topic on this machine, and channels that lead there."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from application import NOW
from deepwork.edge.server.application import Application
from deepwork.views.notifications import web_push
from deepwork.views.notifications.models import Channel, ChannelKind
from deepwork.views.notifications.sender import NotificationSender, Send
from deepwork.views.notifications.sending import send
from deepwork.views.notifications.settings import NotificationFile, NotificationSettings, encode

decode = web_push.decode


class Browser:
    """The keys of a browser's subscription, and the browser that reads what was encrypted for them."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey | None = None, auth: bytes = b"0123456789abcdef"
    ) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._auth = auth

    @property
    def public_key(self) -> str:
        return encode(self._point)

    @property
    def auth(self) -> str:
        return encode(self._auth)

    @property
    def _point(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def decrypt(self, body: bytes) -> bytes:
        """Decrypt as RFC 8291 and RFC 8188 say, with the library's own key derivation."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        theirs, record = body[21 : 21 + length], body[21 + length :]
        assert len(record) <= size
        peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
        shared = self._key.exchange(ec.ECDH(), peer)

        def derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
            return HKDF(SHA256(), length, salt, info).derive(secret)

        secret = derive(self._auth, shared, b"WebPush: info\0" + self._point + theirs, 32)
        key = derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = derive(salt, secret, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert padded.endswith(b"\x02")
        return padded[:-1]


def verify_authorization(header: str) -> dict[str, Any]:
    """Verify the signature of a `vapid` header as a push service does; return its claims."""
    scheme, _, rest = header.partition(" ")
    parts = dict(each.strip().split("=", 1) for each in rest.split(","))
    assert scheme == "vapid"
    head, claims, signature = parts["t"].split(".")
    assert json.loads(decode(head)) == {"typ": "JWT", "alg": "ES256"}
    raw = decode(signature)
    assert len(raw) == 64
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(parts["k"]))
    key.verify(der, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))  # raises if it does not fit
    found: dict[str, Any] = json.loads(decode(claims))
    return found


def verify_webhook(secret: str, headers: dict[str, str], body: bytes) -> None:
    """Verify a webhook as its receiver does."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """A server that keeps what it gets, and answers with the next of these statuses."""

    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    got: list[Received] = field(default_factory=list)
    hold: threading.Event | None = None
    """If set, an answer waits for it."""

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append(Received(self.path, headers, body))
                if receiver.hold is not None:
                    receiver.hold.wait(60)
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 201)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"


SECRET = "whsec_" + base64.b64encode(b"0" * 32).decode()


def make_file(folder: Path) -> NotificationFile:
    """Return the file of a user of the test's own."""
    return NotificationFile(folder / "user" / "notifications.json")


def make_channel(receiver: Receiver, kind: str = "webhook", **about: Any) -> Channel:
    path = "/topic" if kind == "ntfy" else "/hook"
    secret = SECRET if kind == "webhook" else ""
    fields = {"id": f"nc_{kind}", "name": kind, "added_at": NOW - 1000, "secret": secret}
    return Channel(**{**fields, "kind": ChannelKind(kind), "url": receiver.url + path, **about})


def make_browser_channel(receiver: Receiver, browser: Browser, **about: Any) -> Channel:
    keys = {"public_key": browser.public_key, "auth": browser.auth}
    return make_channel(receiver, "push", **keys, url=f"{receiver.url}/push/1", **about)


def save(file: NotificationFile, *channels: Channel, **settings: Any) -> None:
    """Save settings in which nothing has to wait before it is told."""
    given = {"delay_seconds": 0} | settings
    file.change(lambda _: NotificationSettings(channels=channels, **given))


def make_sender(app: Application, file: NotificationFile, send_message: Send = send) -> NotificationSender:
    return NotificationSender(app.database, app._view_states, file, send_message)
