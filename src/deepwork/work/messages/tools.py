"""MCP tools for messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from deepwork.kernel.answers import MAX_LIST, Field, Id, Limit200, Name, Text, check_object
from deepwork.kernel.call import PERSON_PREFIX, current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.foreign_text import quote_line
from deepwork.kernel.notices.models import NoticeType, build_message_text
from deepwork.kernel.notices.store import (
    MAX_NOTICES,
    NoticeDraft,
    NoticeService,
    NoticeStore,
    build_views,
    carry_after_reading,
)
from deepwork.kernel.operations import Traits, WhenFalse, operation
from deepwork.kernel.values import new_id
from deepwork.work.agents.models import Agent, LivingStatus, normalize_runtime, require_registered
from deepwork.work.agents.presence import Presence, TaskDirectory
from deepwork.work.agents.store import AgentStore
from deepwork.work.messages.models import (
    BroadcastType,
    Message,
    MessageEvent,
    MessageStatus,
    MessageStatusFilter,
    MessageType,
    Priority,
    resolve_expiry,
    resolve_statuses,
    to_milliseconds,
)
from deepwork.work.messages.responses import (
    Broadcast,
    Marked,
    MessageList,
    MessageView,
    Sent,
    UnreadCount,
    build_message_payload,
)
from deepwork.work.messages.store import MessageStore

if TYPE_CHECKING:  # input models import pydantic: only calls that use them do
    from deepwork.work.messages.inputs import RecipientFilter

Body = Text | dict[str, Any]
UnixMilliseconds = Annotated[int, Field(ge=0, description="Unix milliseconds")]


class MessageTools:
    """Tools to send, list and archive messages; messages wait in the inbox while the recipient is offline."""

    traits: ClassVar = Traits(toolset="messages", one_transaction=True)

    def __init__(
        self,
        database: Database,
        presence: Presence,
        task_directory: TaskDirectory,
        *,
        is_read_only: bool = False,
    ) -> None:
        self._database = database
        self._presence = presence
        self._task_directory = task_directory
        self._is_read_only = is_read_only

    @operation("work", acts_as="sender_id", for_people=True)
    def message_send(
        self,
        sender_id: Id,
        recipient_id: Id,
        message_type: MessageType,
        body: Body,
        subject: Name | None = None,
        priority: Priority = Priority.NORMAL,
        workflow_id: Id | None = None,
        task_id: Id | None = None,
        reply_to_id: Annotated[Id | None, Field(description="Message to reply to; joins its thread")] = None,
        expires_at: UnixMilliseconds | None = None,
    ) -> Sent:
        """Send a message to another agent."""
        with self._database.transaction() as tx:
            agents, store = AgentStore(tx), MessageStore(tx)
            self._presence.record_sign_of_life(tx, agents.get_for_update(sender_id, "sender"))
            require_registered(agents.get(recipient_id, "recipient"))
            self._require_references(tx, workflow_id, task_id)
            thread_id = store.get(reply_to_id).thread_id if reply_to_id else new_id("thr")
            [message] = self._deliver(
                tx,
                [recipient_id],
                sender_id=sender_id,
                message_type=message_type,
                body=body,
                subject=subject,
                priority=priority,
                workflow_id=workflow_id,
                task_id=task_id,
                reply_to_id=reply_to_id,
                thread_id=thread_id,
                expires_at=resolve_expiry(expires_at, tx.now),
            )
            return Sent(id=message.id, thread_id=thread_id)

    @operation("work", changes_many=True, acts_as="sender_id")
    def message_broadcast(
        self,
        sender_id: Id,
        message_type: BroadcastType,
        body: Body,
        recipient_filter: Annotated[
            RecipientFilter | None, Field(description="Default: all online or busy agents")
        ] = None,
        subject: Name | None = None,
        priority: Priority = Priority.NORMAL,
        workflow_id: Id | None = None,
        expires_at: UnixMilliseconds | None = None,
    ) -> Broadcast:
        """Send a message to all matching agents that are alive, except the sender."""
        with self._database.transaction() as tx:
            self._presence.record_sign_of_life(tx, AgentStore(tx).get_for_update(sender_id, "sender"))
            self._require_references(tx, workflow_id)
            recipients = self._list_living(tx, recipient_filter)
            messages = self._deliver(
                tx,
                [agent.id for agent in recipients if agent.id != sender_id],
                sender_id=sender_id,
                message_type=MessageType(message_type),
                body=body,
                subject=subject,
                priority=priority,
                workflow_id=workflow_id,
                task_id=None,
                reply_to_id=None,
                thread_id=new_id("thr"),
                expires_at=resolve_expiry(expires_at, tx.now),
            )
            return Broadcast(sent_count=len(messages), message_ids=[message.id for message in messages])

    @operation("read")
    def message_list(
        self,
        agent_id: Id,
        status: Annotated[
            MessageStatusFilter | None, Field(description="Default unread; with thread_id: all")
        ] = None,
        message_type: list[MessageType] | None = None,
        priority: list[Priority] | None = None,
        workflow_id: Id | None = None,
        thread_id: Annotated[Id | None, Field(description="Both directions of a thread")] = None,
        limit: Limit200 = 20,
        since: Annotated[int | None, Field(ge=0, description="Only after this Unix time")] = None,
        since_id: Annotated[Id | None, Field(description="Cursor: only later ones, oldest first")] = None,
    ) -> MessageList:
        """List an agent's messages, newest first. Long bodies are cut; message_get returns all."""
        with self._database.reading() as tx:
            agent, store = AgentStore(tx).get(agent_id), MessageStore(tx)
            messages = store.list_matching(
                agent_id,
                {
                    "statuses": resolve_statuses(status, in_thread=thread_id is not None),
                    "types": message_type or None,
                    "priorities": priority or None,
                    "workflow_id": workflow_id,
                    "thread_id": thread_id,
                    "since": None if since is None else to_milliseconds(since),
                    **(store.build_cursor_filter(agent_id, since_id, thread_id) if since_id else {}),
                },
                limit,
            )
            names = _find_sender_names(tx, messages)
            unread, now = sum(store.count_unread(agent_id).values()), tx.now
            waiting = NoticeStore(tx).list_waiting([agent_id], [], MAX_NOTICES)
        self._presence.record_read(agent, now)
        is_marked = self._presence.is_read_by_agent(agent)
        notices = carry_after_reading(self._database, waiting, is_marked=is_marked)
        listed = {message.id for message in messages}
        return MessageList(
            messages=[MessageView.excerpt_from_message(message, names) for message in messages],
            unread_count=unread,
            notices=build_views([notice for notice in notices if notice.about not in listed]),
        )

    @operation(
        "work",
        idempotent=True,
        when_false=WhenFalse("mark_read", default=True, scope="read"),
        offered_on_read_only_server=True,
    )
    def message_get(self, id: Id, mark_read: bool = True) -> MessageView:
        """Get a message in full; marks it as read by default."""
        with self._database.reading() as tx:
            message = MessageStore(tx).get(id)
            names = _find_sender_names(tx, [message])
        if mark_read and message.status is MessageStatus.UNREAD and not self._is_read_only:
            with self._database.transaction() as tx:
                store = MessageStore(tx)
                _require_recipient(store, [id])
                self._record_reading(tx, MessageEvent.READ, store.mark_read([id]))
                message = store.get(id)
        return MessageView.from_message(message, names)

    @operation("work", changes_many=True, idempotent=True)
    def message_mark_read(
        self, message_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_LIST)]
    ) -> Marked:
        """Mark messages as read."""
        with self._database.transaction() as tx:
            store = MessageStore(tx)
            _require_recipient(store, message_ids)
            self._record_reading(tx, MessageEvent.READ, store.mark_read(message_ids))
            return Marked(unknown=store.list_unknown(message_ids) or None)

    @operation("work", changes_many=True, idempotent=True)
    def message_archive(
        self, message_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_LIST)]
    ) -> Marked:
        """Archive messages."""
        with self._database.transaction() as tx:
            store = MessageStore(tx)
            _require_recipient(store, message_ids)
            self._record_reading(tx, MessageEvent.ARCHIVED, store.archive(message_ids))
            return Marked(unknown=store.list_unknown(message_ids) or None)

    @operation("read")
    def message_count_unread(self, agent_id: Id, priority: list[Priority] | None = None) -> UnreadCount:
        """Count an agent's unread messages by priority."""
        with self._database.reading() as tx:
            agent = AgentStore(tx).get(agent_id)
            waiting, now = MessageStore(tx).count_unread(agent_id, priority), tx.now
        self._presence.record_read(agent, now)
        return UnreadCount(
            count=sum(waiting.values()),
            by_priority={level: waiting.get(level, 0) for level in priority or Priority},
        )

    def _require_references(
        self, tx: Transaction, workflow_id: str | None, task_id: str | None = None
    ) -> None:
        """Raise NotFound if the workflow or the task does not exist."""
        if workflow_id is not None:
            self._task_directory.require_workflow(tx, workflow_id)
        if task_id is not None:
            self._task_directory.require_task(tx, task_id)

    def _list_living(self, tx: Transaction, wanted: RecipientFilter | None) -> list[Agent]:
        agents, _ = AgentStore(tx).list_matching(
            statuses=[wanted.status] if wanted and wanted.status else list(LivingStatus),
            role=wanted.role if wanted else None,
            runtime=normalize_runtime(wanted.runtime) if wanted and wanted.runtime else None,
            alive_since=self._presence.get_alive_since(tx),
            limit=MAX_LIST,
        )
        return agents

    def _deliver(self, tx: Transaction, recipients: Sequence[str], **content: Any) -> list[Message]:
        store = MessageStore(tx)
        if isinstance(content["body"], dict):
            check_object("body", content["body"])
        messages = [
            Message(
                id=new_id("msg"),
                recipient_id=recipient,
                position=position,
                status=MessageStatus.UNREAD,
                created_at=tx.now,
                read_at=None,
                **content,
            )
            for recipient, position in sorted(store.allocate_positions(recipients).items())
        ]
        store.add(messages)
        self._emit(tx, MessageEvent.CREATED, messages)
        _notify_recipients(tx, messages)
        return messages

    def _record_reading(self, tx: Transaction, event: MessageEvent, messages: Sequence[Message]) -> None:
        """Emit what happened to messages that were unread; notices of them have nothing to add any more."""
        self._emit(tx, event, messages)
        if messages:
            NoticeStore(tx).mark_carried_about([message.id for message in messages])

    def _emit(self, tx: Transaction, event: MessageEvent, messages: Sequence[Message]) -> None:
        for message in messages:
            tx.emit(event, build_message_payload(message), message.workflow_id)


def _find_sender_names(tx: Transaction, messages: Sequence[Message]) -> dict[str, str]:
    senders = {message.sender_id for message in messages if message.sender_id}
    return AgentStore(tx).get_names(sorted(senders)) if senders else {}


def _notify_recipients(tx: Transaction, messages: Sequence[Message]) -> None:
    """Write notices of what cannot wait in an inbox: messages of people, and urgent ones of agents."""
    if not messages:
        return
    sender = str(messages[0].sender_id)  # they differ only in who gets them
    if is_person(tx.caller):
        by, name = tx.caller, tx.caller.removeprefix(PERSON_PREFIX)
    elif messages[0].priority is Priority.URGENT:
        by, name = sender, quote_line(AgentStore(tx).get(sender).name, 60)
    else:
        return
    NoticeService(tx, by).add([_draft_notice(message, f"{name} ({sender})") for message in messages])


def _draft_notice(message: Message, sender: str) -> NoticeDraft:
    body = message.body if isinstance(message.body, str) else json.dumps(message.body, ensure_ascii=False)
    return NoticeDraft(
        message.recipient_id,
        NoticeType.MESSAGE,
        build_message_text(message.id, sender, message.subject, body),
        workflow_id=message.workflow_id,
        task_id=message.task_id,
        about=message.id,
    )


def _require_recipient(store: MessageStore, ids: Sequence[str]) -> None:
    """Raise NotAllowed if one of the messages is for an agent of another token."""
    call = current_call()
    own = call.agent.agent_id if call.agent else None
    if call.scope != "admin" and (stranger := store.find_not_owned_by(ids, call.caller, own)):
        raise NotAllowed(
            f"Message {stranger!r} is for an agent registered with another token.",
            code=Code.UNAUTHORIZED,
            suggestion="Read it with {tool:message_get} and mark_read false; only its recipient can "
            "archive it.",
        )
