"""What people read about messages; reading one here does not mark it as read."""

from __future__ import annotations

from typing import Annotated, ClassVar

from deepwork.kernel.answers import Field, Id
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, decode_cursor, encode_cursor
from deepwork.work.agents.store import AgentStore
from deepwork.work.messages.models import MessageStatusFilter, resolve_statuses
from deepwork.work.messages.responses import MessagePage, Messages, MessageView
from deepwork.work.messages.store import MessageStore


class MessageOperations:
    """Reads the messages of all agents."""

    traits: ClassVar = Traits(toolset="messages", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def list_inbox(self, id: Id, limit: PageLimit = 50, cursor: Cursor = None) -> MessagePage:
        """Messages to an agent, newest first."""
        with self._database.reading() as tx:
            AgentStore(tx).get(id)
            store = MessageStore(tx)
            received = store.count_received(id)
            [upto] = decode_cursor(cursor, int) if cursor else [received]
            # Positions in an inbox have no gaps, so two delimit a page; expired messages make it shorter.
            start = max(0, upto - limit)
            found = store.list_matching(id, {"since_position": start}, limit)
        shown = [MessageView.excerpt_from_message(each) for each in reversed(found) if each.position <= upto]
        return MessagePage(messages=shown, total=received, cursor=encode_cursor([start]) if start else None)

    @operation("read")
    def list_messages(
        self,
        agent_id: Annotated[Id, Field(description="The recipient")],
        status: MessageStatusFilter = MessageStatusFilter.ALL,
        thread_id: str | None = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Messages:
        """Messages to an agent, oldest first."""
        with self._database.reading() as tx:
            AgentStore(tx).get(agent_id)
            store = MessageStore(tx)
            if cursor:
                after = store.build_cursor_filter(agent_id, cursor, thread_id)
            else:
                after = {"since_at": 0, "since_id": ""} if thread_id else {"since_position": 0}
            filters = {"statuses": resolve_statuses(status, in_thread=False), "thread_id": thread_id, **after}
            found = store.list_matching(agent_id, filters, limit)
        return Messages(
            messages=[MessageView.excerpt_from_message(message) for message in found],
            cursor=found[-1].id if len(found) == limit else None,
        )

    @operation("read")
    def read_message(self, id: Id) -> MessageView:
        """One message in full, without marking it as read."""
        with self._database.reading() as tx:
            return MessageView.from_message(MessageStore(tx).get(id))
