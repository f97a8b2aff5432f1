"""Sends one message to one channel. That another place does not respond is an answer, no error."""

from __future__ import annotations

import hmac
import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.programs import OutputTooLarge, ProgramLimits, run_supervised
from deepwork.views.notifications import web_push
from deepwork.views.notifications.models import RUN_ENDED, Channel, ChannelKind, Notification
from deepwork.views.notifications.settings import NotificationSettings, encode

SECONDS = 20.0
"""After so long, a channel counts as failing."""
_SECONDS_OF_SILENCE = 10.0
_MAX_ANSWER = 4096
_MAX_OUTPUT = 64 * 1024
_MAX_WAIT_SECONDS = 24 * 3600
_PUSH_SECONDS = 24 * 3600
"""How long a push service keeps a message for a browser that is off."""
_GONE = (404, 410)
SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins


class SendOutcome(NamedTuple):
    """What became of a message."""

    problem: str = ""
    """Why it was not told; empty if it was. Without addresses and secrets."""
    is_gone: bool = False
    """Whether the browser has unsubscribed, so that the channel is of no use any more."""
    wait_seconds: int = 0
    """How long the channel asks us to wait."""


def send(channel: Channel, message: Notification, settings: NotificationSettings) -> SendOutcome:
    """Send a message; returns within about twenty seconds, and raises nothing that concerns the channel."""
    try:
        return _SENDERS[channel.kind](channel, message, settings)
    except DeepworkError as error:  # such as a missing package
        return SendOutcome(f"{error.message} {error.suggestion}".strip())


def sign_webhook(secret: str, id: str, moment: int, body: bytes) -> str:
    """Sign a webhook as Standard Webhooks do: over its id, the time in seconds and the body."""
    key = b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, f"{id}.{moment}.".encode() + body, sha256).digest()
    return f"v1,{b64encode(digest).decode()}"


def _push(channel: Channel, message: Notification, settings: NotificationSettings) -> SendOutcome:
    names = ("id", "kind", "title", "body", "path")
    content = json.dumps({name: getattr(message, name) for name in names}, ensure_ascii=False).encode()
    if len(content) > web_push.MAX_PLAINTEXT:
        shortened = {name: getattr(message, name) for name in names} | {"body": ""}
        content = json.dumps(shortened).encode()
    now = time.time_ns() // 1_000_000
    headers = {
        "Authorization": web_push.build_authorization(settings.push_key, channel.url, channel.origin, now),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(_PUSH_SECONDS),
        "Urgency": "normal" if message.kind == RUN_ENDED else "high",
        # A message that is sent again replaces the first one, if that waits for the browser.
        "Topic": encode(sha256(message.id.encode()).digest())[:32],
    }
    return _post(channel.url, web_push.encrypt(content, channel.public_key, channel.auth), headers)


def _call_webhook(channel: Channel, message: Notification, settings: NotificationSettings) -> SendOutcome:
    body = _dump(message.to_dict(settings.link))
    moment = time.time_ns() // 1_000_000_000
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": message.id,
        "Webhook-Timestamp": str(moment),
        "Webhook-Signature": sign_webhook(channel.secret, message.id, moment, body),
    }
    outcome = _post(channel.url, body, headers)
    return outcome._replace(is_gone=False)


def _publish(channel: Channel, message: Notification, settings: NotificationSettings) -> SendOutcome:
    root, _, topic = channel.url.rpartition("/")
    said = {
        "topic": topic,
        "title": message.title,
        "message": message.body or ("deepwork status" if not settings.link else message.title),
        "priority": 3 if message.kind == RUN_ENDED else 4,
    }
    said |= {"click": f"{settings.link}{message.path}"} if settings.link else {}
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {channel.secret}"} if channel.secret else {}
    return _post(root, _dump(said), headers)._replace(is_gone=False)


def _run_command(channel: Channel, message: Notification, settings: NotificationSettings) -> SendOutcome:
    limits = ProgramLimits(SECONDS, _MAX_OUTPUT)
    environment = build_child_environment()
    try:
        found = run_supervised(
            channel.argv,
            cwd=Path.home(),
            env=environment,
            input=_dump(message.to_dict(settings.link)),
            bounds=limits,
        )
    except TimeoutError:
        return SendOutcome(f"The command did not end within {SECONDS:g} seconds.")
    except OutputTooLarge:
        return SendOutcome("The command printed too much.")
    except OSError as error:
        return SendOutcome(f"The command cannot be started: {error.strerror or type(error).__name__}.")
    return (
        SendOutcome() if found.code == 0 else SendOutcome(f"The command ended with exit code {found.code}.")
    )


_SENDERS = {
    ChannelKind.PUSH: _push,
    ChannelKind.WEBHOOK: _call_webhook,
    ChannelKind.NTFY: _publish,
    ChannelKind.COMMAND: _run_command,
}


def _dump(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> SendOutcome:
    """Send a request to exactly this address: redirects are not followed, and no proxy is asked."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS_OF_SILENCE)
    # A server that sends a byte now and then would never be silent.
    watch = threading.Timer(SECONDS, _cut, (connection,))
    watch.daemon = True
    watch.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body, {"User-Agent": "deepwork", **headers})
        answer = connection.getresponse()
        answer.read(_MAX_ANSWER)
        return _judge(answer.status, answer.getheader("Retry-After"))
    except TimeoutError:
        return SendOutcome(f"It did not answer within {_SECONDS_OF_SILENCE:g} seconds.")
    except (OSError, HTTPException, ValueError) as error:
        return SendOutcome(f"It cannot be reached: {_name_problem(error)}.")
    finally:
        watch.cancel()
        connection.close()


def _judge(status: int, retry_after: str | None) -> SendOutcome:
    if 200 <= status < 300:
        return SendOutcome()
    if 300 <= status < 400:
        return SendOutcome(f"It answered {status}: it is elsewhere, and redirects are not followed.")
    wait = int(retry_after) if retry_after and retry_after.isdecimal() and len(retry_after) < 9 else 0
    return SendOutcome(f"It answered {status}.", status in _GONE, min(wait, _MAX_WAIT_SECONDS))


def _cut(connection: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(2)


def _name_problem(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return truncate_to_line(str(reason), 120) or type(error).__name__
