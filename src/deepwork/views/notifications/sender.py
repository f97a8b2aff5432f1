"""Looks what waits for a person and which runs ended, and tells each channel once.

Every process that lives longer than a command has a sender: servers, the dashboard, runners. Of those of one
user on one machine, the holder of a lock works for a store; when it ends or is killed, the next one does.
The store decides who tells what, so that several machines do not tell it twice either.

A message is sent, then recorded. A process that is killed in between has told it, and the next one tells it
again, with the same id: to hear something twice is better than not at all.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from urllib.parse import quote

from deepwork.delivery.runner.models import Run
from deepwork.kernel.attention import Attention
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.files.lock import try_to_lock_file
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import new_id
from deepwork.views.notifications.models import (
    RUN_ENDED,
    Channel,
    Notification,
    Thing,
    build_message,
    build_test_message,
)
from deepwork.views.notifications.sending import SendOutcome, send
from deepwork.views.notifications.settings import NotificationFile, NotificationSettings
from deepwork.views.notifications.store import NotificationStore
from deepwork.views.overview.ended_runs import list_ended_runs
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.states.view import StateView

log = logging.getLogger("deepwork")

RUN_NEWS_MS = 24 * 3600 * 1000
"""The end of a run that nobody could be told for so long is no news any more."""
LOOK_ANYWAY_MS = 20_000
"""What changes with time, such as a claim whose agent is gone, emits no event."""

ViewStates = Callable[[Transaction], StateView]
Send = Callable[[Channel, Notification, NotificationSettings], SendOutcome]


@dataclass(frozen=True)
class Look:
    """What there is to tell at one moment."""

    seq: int
    at: int
    waiting: Mapping[str, Thing]
    is_complete: bool
    """Whether all that waits is listed: what is not listed then does not wait any more."""
    ended: Mapping[str, Thing]


class NotificationSender:
    """Tells the channels of this user about one store."""

    def __init__(
        self, database: Database, view_states: ViewStates, file: NotificationFile, send_message: Send = send
    ) -> None:
        self._database, self._view_states = database, view_states
        self._file, self._send = file, send_message
        self._name = f"{os.getpid()}.{new_id('ns')}"
        self._last_look: Look | None = None
        self._said: str | None = None

    def lock(self, location: str) -> int | None:
        """Become the sender of this user for this store; None if another process is. Closing it ends that."""
        name = sha256(location.encode()).hexdigest()[:16]
        return try_to_lock_file(self._file.path.with_name(f"notifications-{name}.lock"))

    def work(self, *, delay_seconds: int | None = None) -> int:
        """Look, and send what is to be told now; return how many messages were sent.

        Never raises for what a later call may find mended: the store or a channel that does not respond.
        """
        try:
            settings = self._file.load()
            if not settings.channels:
                return 0
            look = self._look(force=delay_seconds is not None)
            delay = settings.delay_seconds if delay_seconds is None else delay_seconds
            for channel in settings.channels:
                self._note(channel, look, delay * 1000)
            sent = sum(self._deliver(channel, look, settings) for channel in settings.channels)
        except DeepworkError as error:
            self._say(error.message)
            return 0
        self._said = None
        return sent

    def _say(self, problem: str) -> None:
        """Log a problem once, until all is well again."""
        if problem != self._said:
            self._said = problem
            log.warning("Notifications wait: %s", problem)

    def _look(self, *, force: bool) -> Look:
        with self._database.reading() as tx:
            seq = EventStore(tx).get_last_seq()
            last = self._last_look
            if last and not force and last.seq == seq and 0 <= tx.now - last.at < LOOK_ANYWAY_MS:
                return last
            inbox, total = list_inbox(self._view_states(tx))
            waiting = {thing.key: thing for thing in map(_to_thing, inbox)}
            ended = {
                thing.key: thing
                for thing in (_to_ended(run, name) for run, name in list_ended_runs(tx, tx.now - RUN_NEWS_MS))
            }
            self._last_look = Look(seq, tx.now, waiting, total <= len(inbox), ended)
            return self._last_look

    def _note(self, channel: Channel, look: Look, delay_ms: int) -> None:
        """Store what the channel is to be told, and forget what does not wait any more."""
        with self._database.reading() as tx:
            if not any(_plan_changes(NotificationStore(tx), channel, look, tx.now - delay_ms)):
                return
        with self._database.transaction() as tx:
            store = NotificationStore(tx)
            if not store.begin_look(channel.id, look.seq, look.at):
                return
            new, gone = _plan_changes(store, channel, look, tx.now - delay_ms)
            store.remove_things(channel.id, gone)
            store.add_things(channel.id, new)

    def _deliver(self, channel: Channel, look: Look, settings: NotificationSettings) -> bool:
        """Send the channel what it is to be told, if this is the time; return whether it was told."""
        with self._database.reading() as tx:
            store = NotificationStore(tx)
            state = store.find_states([channel.id]).get(channel.id)
            is_waiting = any(each.told_at is None for each in store.list_things(channel.id).values())
            now = tx.now
        quiet = settings.quiet.find_last_end(now) if settings.quiet else None
        is_quiet = settings.quiet is not None and quiet is None
        if not is_waiting or is_quiet or (state and state.next_at and state.next_at > now):
            return False
        with self._database.transaction() as tx:
            id, claimed = NotificationStore(tx).claim(channel.id, self._name)
        known = {**look.waiting, **look.ended}
        things = [known.get(row.thing) or Thing(row.thing, row.kind, "", row.since) for row in claimed]
        if not things:
            return False
        things.sort(key=lambda each: (each.since, each.key))
        message = build_message(id, things, now, says_content=settings.says_content, quiet=quiet)
        return self.tell(channel, message, settings)

    def tell(self, channel: Channel, message: Notification, settings: NotificationSettings) -> bool:
        """Send a message and record what became of it."""
        outcome = self._send(channel, message, settings)
        if outcome.is_gone:
            log.info("The browser %s has unsubscribed: its channel was removed.", channel.id)
            self._file.remove(channel.id)
        with self._database.transaction() as tx:
            store = NotificationStore(tx)
            if outcome.is_gone:
                store.forget(channel.id)
            elif outcome.problem:
                store.mark_failed(channel.id, message.id, outcome.problem, outcome.wait_seconds * 1000)
            else:
                store.mark_told(channel.id, message.id)
        return not outcome.problem

    def test(self, channel: Channel) -> SendOutcome:
        """Send a test message, also in quiet hours; what becomes of it shows how the channel is."""
        with self._database.reading() as tx:
            message = build_test_message(new_id("nm"), tx.now)
        outcome = self._send(channel, message, self._file.load())
        if not outcome.problem:
            with self._database.transaction() as tx:
                NotificationStore(tx).mark_told(channel.id, message.id)
        return outcome


def _plan_changes(
    store: NotificationStore, channel: Channel, look: Look, before: int
) -> tuple[list[Thing], list[str]]:
    """List what the channel is to be told, and the keys of what it need not remember."""
    known = store.list_things(channel.id)
    found = [(each, before) for each in look.waiting.values()] + [
        (each, look.at) for each in look.ended.values()
    ]
    new = [
        each for each, latest in found if each.key not in known and channel.added_at <= each.since <= latest
    ]
    gone = [
        key
        for key, row in known.items()
        if (key not in look.ended if row.kind == RUN_ENDED else look.is_complete and key not in look.waiting)
    ]
    return new, gone


def _to_thing(entry: Attention) -> Thing:
    """What one command answers is one thing, whoever of several sources describes it."""
    return Thing(
        key=_build_key(entry.next or entry.id),
        kind=entry.kind,
        id=entry.id,
        since=entry.since,
        title=entry.title,
        run=str(entry.run["name"]) if entry.run else "",
        path=f"/?item={quote(entry.key, safe=':/')}",
    )


def _to_ended(run: Run, name: str) -> Thing:
    return Thing(
        key=_build_key(f"{RUN_ENDED} {run.id}"),
        kind=RUN_ENDED,
        id=run.id,
        since=run.ended_at or run.updated_at,
        title=f"The run on {name} ended: {run.status.value.replace('_', ' ')}.",
        path=f"/runs/{run.workflow_id or run.session_id}" if run.workflow_id or run.session_id else "/runs",
    )


def _build_key(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:24]


def list_problems(
    settings: NotificationSettings,
    read: Callable[[Callable[[Transaction], Sequence[str]]], Sequence[str] | None],
) -> Sequence[str]:
    """List the channels that fail, for `deepwork doctor`; `read` reads the store if there is one."""

    def list_failing(tx: Transaction) -> Sequence[str]:
        states = NotificationStore(tx).find_states([each.id for each in settings.channels])
        return [
            f"Notifications do not reach {each.name} ({each.id}): {state.problem}"
            f" Try it: deepwork notify test {each.id}"
            for each in settings.channels
            if (state := states.get(each.id)) and state.failing_since
        ]

    with suppress(DeepworkError):  # reported elsewhere, or a store that the next command migrates
        return read(list_failing) or ()
    return ()
