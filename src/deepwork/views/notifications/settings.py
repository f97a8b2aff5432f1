"""Where this user is told, in a file of the user's own folder: no project can name a channel.

The file has secrets and is written by deepwork. Sending processes look at it again whenever it changed.
"""

from __future__ import annotations

import ipaddress
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from deepwork.kernel.environment import choose_user_file
from deepwork.kernel.errors import InvalidInput, StorageError
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_private_folder, read_private_file, write_atomically
from deepwork.kernel.records import dataclass
from deepwork.views.notifications.models import Channel, ChannelKind, QuietHours, parse_quiet_hours

FILE_NAME: Final = "notifications.json"
MAX_CHANNELS = 50
MAX_URL = 2000
USUAL_DELAY = 10
MAX_DELAY = 24 * 3600
_VERSION = 1
PUSH_HOSTS = (
    "fcm.googleapis.com",
    "jmt17.google.com",
    "updates.push.services.mozilla.com",
    "web.push.apple.com",
    ".push.services.mozilla.com",
    ".push.apple.com",
    ".notify.windows.com",
)
"""The push services of browsers; a name that begins with a dot stands for all below it."""


@dataclass(frozen=True)
class NotificationSettings:
    """The settings of this user."""

    channels: tuple[Channel, ...] = ()
    quiet: QuietHours | None = None
    says_content: bool = False
    """Whether messages contain titles and names, which are text of tasks and plans."""
    delay_seconds: int = USUAL_DELAY
    """How long something has to wait before it is told: who looks at the page answers sooner."""
    link: str = ""
    """The address of the dashboard, for links."""
    push_hosts: tuple[str, ...] = ()
    """Push services beside those of browsers, as `host` or `host:port`."""
    push_key: str = field(default="", repr=False)
    """The private key that push services know us by, as PEM."""

    def find(self, id: str) -> Channel | None:
        """Find a channel by its id."""
        return next((each for each in self.channels if each.id == id), None)


class NotificationFile:
    """The file; readers never see half a change, writers wait for each other."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or choose_user_file(FILE_NAME)

    def load(self) -> NotificationSettings:
        """Load the settings; raises StorageError if the file cannot be relied on."""
        content = read_private_file(self.path)
        if content is None:
            return NotificationSettings()
        try:
            return _parse(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidInput):
            raise StorageError(
                f"{self.path} is damaged, so nobody is notified.",
                suggestion="Remove it, then add your channels again with `deepwork notify add`.",
            ) from None

    def change(self, change: Callable[[NotificationSettings], NotificationSettings]) -> NotificationSettings:
        """Change the settings, and return them as they are now."""
        make_private_folder(self.path.parent)
        with hold_file_lock(self.path.with_name("notifications.lock")):
            before = self.load()
            after = change(before)
            if after != before:
                write_atomically(self.path, json.dumps(_to_dict(after), indent=2).encode() + b"\n")
            return after

    def add(self, channel: Channel) -> Channel:
        """Add a channel; a browser that is known already keeps its id."""

        def change(settings: NotificationSettings) -> NotificationSettings:
            same = [each for each in settings.channels if _is_same_browser(each, channel)]
            added = replace(channel, id=same[0].id) if same else channel
            others = tuple(each for each in settings.channels if each not in same)
            if len(others) >= MAX_CHANNELS:
                raise InvalidInput(
                    f"There are {MAX_CHANNELS} channels already.",
                    suggestion="Remove one: deepwork notify list",
                )
            return replace(settings, channels=(*others, added))

        return self.change(change).channels[-1]

    def remove(self, id: str) -> bool:
        """Remove a channel; False if there is none with this id."""
        had = self.load().find(id) is not None

        def change(settings: NotificationSettings) -> NotificationSettings:
            return replace(settings, channels=tuple(each for each in settings.channels if each.id != id))

        self.change(change)
        return had


def require_url(url: str) -> str:
    """Return the address of a webhook or topic: over HTTPS, or on this machine or network.

    Raises InvalidInput for anything else, such as an address with a password, which logs of others show.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    has_odd_text = len(url) > MAX_URL or not url.isprintable() or " " in url or not url.isascii()
    if not host or has_odd_text or parts.scheme not in ("http", "https") or parts.username or parts.fragment:
        raise InvalidInput(
            "This is no address that messages can be sent to.",
            suggestion="Write https://HOST/PATH, without a user name and without #.",
        )
    if parts.scheme == "http" and not _is_near(host):
        raise InvalidInput(
            f"http://{host} can be read on the way.",
            suggestion="Use https, or an address of this machine or network such as http://192.168.1.5:8080.",
        )
    return url


def require_push_service(url: str, more: tuple[str, ...] = ()) -> str:
    """Return the address that a browser got from its push service; raises InvalidInput for another host.

    A page could name any address, and every server can be asked by whoever may use its page.
    """
    found = urlsplit(require_url(url))
    host = found.hostname or ""
    is_known = found.scheme == "https" and any(
        host == each or (each.startswith(".") and host.endswith(each)) for each in PUSH_HOSTS
    )
    if not is_known and found.netloc not in more and host not in more:
        raise InvalidInput(
            f"{host} is no push service that deepwork knows.",
            suggestion="If your browser uses it: deepwork notify set --push-host HOST",
        )
    return url


def get_address(channel: Channel) -> str:
    """Return where a channel leads, without what may be secret: a host, or a program."""
    return channel.argv[0] if channel.argv else urlsplit(channel.url).netloc


def encode(content: bytes) -> str:
    """Encode bytes as browsers do: base64url without padding."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def _is_near(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or (address.is_private and not address.is_link_local)


def _is_same_browser(known: Channel, given: Channel) -> bool:
    return known.kind is given.kind is ChannelKind.PUSH and known.url == given.url


_FIELDS = ("says_content", "delay_seconds", "link", "push_key")


def _parse(data: Mapping[str, Any]) -> NotificationSettings:
    if data["version"] != _VERSION:
        raise ValueError("another version")
    quiet = data.get("quiet")
    found = NotificationSettings(
        channels=tuple(map(_parse_channel, data.get("channels", ()))),
        quiet=parse_quiet_hours(**quiet) if quiet else None,
        push_hosts=tuple(map(str, data.get("push_hosts", ()))),
        **{name: data[name] for name in _FIELDS if name in data},
    )
    if type(found.delay_seconds) is not int or type(found.says_content) is not bool:
        raise ValueError("not the types that deepwork writes")
    return found


def _parse_channel(data: Mapping[str, Any]) -> Channel:
    argv = tuple(map(str, data.get("argv", ())))
    return Channel(**{**data, "kind": ChannelKind(data["kind"]), "argv": argv})


def _to_dict(settings: NotificationSettings) -> dict[str, Any]:
    return {
        "version": _VERSION,
        **{name: getattr(settings, name) for name in _FIELDS},
        "quiet": settings.quiet.to_dict() if settings.quiet else None,
        "push_hosts": list(settings.push_hosts),
        "channels": [
            {name: value for name, value in asdict(each).items() if value or name == "added_at"}
            | {"kind": each.kind.value}
            for each in settings.channels
        ],
    }
