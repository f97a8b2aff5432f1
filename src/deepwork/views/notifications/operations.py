"""What people read and change about their notifications."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from deepwork.kernel.answers import Answer, Field, Id, IsoTime, Name
from deepwork.kernel.call import PERSON_PREFIX, current_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput, NotAllowed, NotFound
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_optional_timestamp, format_timestamp, new_id
from deepwork.views.notifications import web_push
from deepwork.views.notifications.models import Channel, ChannelKind, parse_quiet_hours
from deepwork.views.notifications.sender import NotificationSender, ViewStates
from deepwork.views.notifications.sending import SECRET_PREFIX
from deepwork.views.notifications.settings import (
    MAX_DELAY,
    NotificationFile,
    NotificationSettings,
    get_address,
    require_push_service,
    require_url,
)
from deepwork.views.notifications.store import ChannelState, NotificationStore

_SECRET_BYTES = 32
_MAX_WORDS = 100
Url = Annotated[str, Field(min_length=1, max_length=2000)]


class ChannelView(Answer):
    """A channel, without its address and its secrets, and how it is."""

    id: str
    kind: ChannelKind
    name: str
    to: str
    """The host or the program that it leads to."""
    added_at: IsoTime
    told_at: IsoTime | None = None
    failing_since: IsoTime | None = None
    problem: str | None = None
    next_at: IsoTime | None = None
    """When a channel that fails is tried again."""
    person: str | None = None
    """Whose browser it is."""


class QuietView(Answer):
    begins: str
    ends: str
    zone: str | None = None


class NotificationsView(Answer):
    """Where this user is told what waits and which runs ended, and when."""

    channels: list[ChannelView]
    quiet: QuietView | None = None
    says_content: bool
    delay_seconds: int
    link: str | None = None
    push_hosts: list[str]
    can_push: bool
    """Whether the package for Web Push is installed."""


class AddedChannel(Answer):
    """A channel that was added; the secret of a webhook is shown this once."""

    channel: ChannelView
    secret: str | None = None


class RemovedChannel(Answer):
    removed: str


class TestedChannel(Answer):
    """What became of the test of one channel."""

    id: str
    name: str
    is_told: bool
    problem: str | None = None


class Tested(Answer):
    channels: list[TestedChannel]


class PushKey(Answer):
    """The public key that a browser subscribes with."""

    public_key: str


class NotificationOperations:
    """Reads, changes and tries this user's channels; they are in a file of the user, not in the store."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(
        self,
        database: Database,
        view_states: ViewStates,
        open_file: Callable[[], NotificationFile] = NotificationFile,
    ) -> None:
        self._database, self._view_states, self._open_file = database, view_states, open_file

    @operation("read")
    def get_notifications(self) -> NotificationsView:
        """Where you are told what waits for you and which runs ended, and how these channels are."""
        return self._describe(self._open_file().load())

    @operation("admin", for_people=True, long_running=True)
    def add_channel(
        self, kind: Literal["webhook", "ntfy"], url: Url, name: Name | None = None, token: str | None = None
    ) -> AddedChannel:
        """Add a webhook or a topic of ntfy that is told."""
        parts = urlsplit(require_url(url))
        if kind == "ntfy" and not parts.path.strip("/"):
            raise InvalidInput("The address names no topic.", suggestion="Write https://ntfy.sh/TOPIC.")
        if token and (not token.isascii() or not token.isprintable()):
            raise InvalidInput("`token` has characters that no token has.")
        secret = (
            f"{SECRET_PREFIX}{b64encode(os.urandom(_SECRET_BYTES)).decode()}" if kind == "webhook" else token
        )
        new = self._build(kind, name or parts.hostname or kind, url=url.rstrip("/"), secret=secret or "")
        return AddedChannel(channel=self._add(new), secret=secret if kind == "webhook" else None)

    @operation("admin", long_running=True)
    def add_command(self, argv: list[str], name: Name | None = None) -> AddedChannel:
        """Add a command that is run with each message on its standard input; only at a shell."""
        if not argv or len(argv) > _MAX_WORDS or not argv[0] or any("\0" in word for word in argv):
            raise InvalidInput(
                "This is no command.", suggestion="deepwork notify add command -- PROGRAM ARGS"
            )
        return AddedChannel(channel=self._add(self._build("command", name or argv[0], argv=tuple(argv))))

    @operation("work", for_people=True, long_running=True, idempotent=True)
    def prepare_push(self) -> PushKey:
        """Return the key that a browser subscribes with; made when it is first needed."""

        def change(settings: NotificationSettings) -> NotificationSettings:
            return settings if settings.push_key else replace(settings, push_key=web_push.generate_key())

        return PushKey(public_key=web_push.get_public_key(self._open_file().change(change).push_key))

    @operation("work", for_people=True, long_running=True, idempotent=True)
    def add_browser(
        self, endpoint: Url, public_key: str, auth: str, name: Name | None = None
    ) -> AddedChannel:
        """Tell the browser that has this subscription."""
        settings = self._open_file().load()
        require_push_service(endpoint, settings.push_hosts)
        web_push.require_subscription(public_key, auth)
        if not settings.push_key:
            raise NotAllowed("No key was made yet.", suggestion="Call prepare_push first.")
        call = current_call()
        new = self._build("push", name or "A browser", url=endpoint, public_key=public_key, auth=auth)
        origin = call.proof.origin if call.proof else ""
        added = self._add(replace(new, origin=origin, person=call.caller), link=origin)
        return AddedChannel(channel=added)

    @operation("work", for_people=True, long_running=True, destructive=True)
    def remove_channel(self, channel_id: Id) -> RemovedChannel:
        """Remove a channel: your own browser; with the scope admin, any."""
        file = self._open_file()
        channel = self._get(file.load(), channel_id)
        call = current_call()
        if call.scope != "admin" and channel.person != call.caller:
            raise NotAllowed(
                "This channel is not your browser.", suggestion="Ask the owner of this server to remove it."
            )
        file.remove(channel_id)
        with self._database.transaction() as tx:
            NotificationStore(tx).forget(channel_id)
        return RemovedChannel(removed=channel_id)

    @operation("work", for_people=True, long_running=True)
    def test_channels(self, channel_id: Id | None = None) -> Tested:
        """Send a test message now, also in quiet hours: to one channel, or to all."""
        file = self._open_file()
        settings = file.load()
        chosen = [self._get(settings, channel_id)] if channel_id else list(settings.channels)
        sender = NotificationSender(self._database, self._view_states, file)
        found = []
        for each in chosen:
            outcome = sender.test(each)
            if outcome.is_gone:
                file.remove(each.id)
            problem = outcome.problem or None
            found.append(TestedChannel(id=each.id, name=each.name, is_told=not problem, problem=problem))
        return Tested(channels=found)

    @operation("admin", for_people=True, long_running=True, idempotent=True)
    def set_notifications(
        self,
        quiet_begins: str | None = None,
        quiet_ends: str | None = None,
        zone: str | None = None,
        says_content: bool | None = None,
        delay_seconds: Annotated[int | None, Field(ge=0, le=MAX_DELAY)] = None,
        link: str | None = None,
        push_hosts: list[str] | None = None,
    ) -> NotificationsView:
        """Set quiet hours (empty: none), whether titles are sent, how long something waits first."""
        if link:
            require_url(link)

        def change(settings: NotificationSettings) -> NotificationSettings:
            quiet = settings.quiet
            if quiet_begins == "" or quiet_ends == "":
                quiet = None
            elif quiet_begins is not None or quiet_ends is not None or zone is not None:
                before = settings.quiet.to_dict() if settings.quiet else {}
                given = {"begins": quiet_begins, "ends": quiet_ends, "zone": zone}
                words = before | {key: value for key, value in given.items() if value is not None}
                quiet = parse_quiet_hours(words.get("begins"), words.get("ends"), words.get("zone", ""))
            changes: dict[str, Any] = {
                "says_content": says_content,
                "delay_seconds": delay_seconds,
                "link": None if link is None else link.rstrip("/"),
                "push_hosts": None if push_hosts is None else tuple(push_hosts),
            }
            kept = {key: value for key, value in changes.items() if value is not None}
            return replace(settings, quiet=quiet, **kept)

        return self._describe(self._open_file().change(change))

    def _build(self, kind: str, name: str, **about: Any) -> Channel:
        with self._database.reading() as tx:
            now = tx.now
        return Channel(new_id("nc"), ChannelKind(kind), name, now, **about)

    def _add(self, channel: Channel, *, link: str = "") -> ChannelView:
        file = self._open_file()
        added = file.add(channel)
        if link:
            file.change(lambda settings: settings if settings.link else replace(settings, link=link))
        return _describe_channel(added, None)

    def _get(self, settings: NotificationSettings, id: str) -> Channel:
        found = settings.find(id)
        if found is None:
            raise NotFound("channel", id, suggestion="List them with `deepwork notify list`.")
        return found

    def _describe(self, settings: NotificationSettings) -> NotificationsView:
        with self._database.reading() as tx:
            states = NotificationStore(tx).find_states([each.id for each in settings.channels])
        return NotificationsView(
            channels=[_describe_channel(each, states.get(each.id)) for each in settings.channels],
            quiet=QuietView(**settings.quiet.to_dict()) if settings.quiet else None,
            says_content=settings.says_content,
            delay_seconds=settings.delay_seconds,
            link=settings.link or None,
            push_hosts=list(settings.push_hosts),
            can_push=web_push.is_available(),
        )


def _describe_channel(channel: Channel, state: ChannelState | None) -> ChannelView:
    known = state or ChannelState(channel.id)
    return ChannelView(
        id=channel.id,
        kind=channel.kind,
        name=channel.name,
        to=get_address(channel),
        added_at=format_timestamp(channel.added_at),
        told_at=format_optional_timestamp(known.told_at),
        failing_since=format_optional_timestamp(known.failing_since),
        problem=known.problem,
        next_at=format_optional_timestamp(known.next_at),
        person=channel.person.removeprefix(PERSON_PREFIX) or None,
    )
