"""The inbox of people: what waits, with what it blocks and costs; to put off, to clear, to give away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from deepwork.gates.access.store import TokenStore
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.answers import Act, Answer, Field, Id, IsoTime, Text
from deepwork.kernel.attention import Attention
from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.foreign_text import quote_line
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.store import NoticeService
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.states import Cause
from deepwork.kernel.values import copy_with, format_timestamp, parse_timestamp
from deepwork.views.overview.inbox import MAX_ENTRIES, Inbox, find_entry, read_inbox
from deepwork.views.overview.inbox_causes import count_blocked_tasks
from deepwork.views.overview.inbox_marks import InboxEvent, InboxMark, find_mark, name_owner
from deepwork.views.overview.inbox_offers import list_offers
from deepwork.views.overview.inbox_store import InboxMarkStore
from deepwork.views.overview.run_store import WorkListStore
from deepwork.views.overview.states.view import StateView
from deepwork.work.agents.models import LivingStatus, require_registered
from deepwork.work.agents.store import AgentStore
from deepwork.work.tracking.list_responses import RunRef

MAX_SNOOZE_MS = 90 * 24 * 3600 * 1000
_MAX_PEOPLE = 100
_ALIVE_MS = 10 * 60 * 1000
"""Agents that gave a sign of life within this time are offered."""
Show = Literal["open", "snoozed", "given", "cleared"]
ItemId = Annotated[str, Field(strip_whitespace=True, min_length=1, max_length=400)]
Items = Annotated[
    list[ItemId], Field(min_length=1, max_length=MAX_ENTRIES, description="KIND:ID, as the inbox shows them")
]


class ItemTask(Answer):
    id: str
    name: str


class ItemPart(Answer):
    """One of several entries with the same cause."""

    id: str
    about: str
    title: str
    task: ItemTask | None = None
    actions: list[Act]


class InboxItem(Answer):
    """Something that waits for a person."""

    id: str
    """KIND:ID; what clearing, snoozing and giving take."""
    kind: str
    about: str
    """The id of what waits."""
    title: str
    detail: str
    because: Cause
    next: str | None = None
    since: IsoTime
    run: RunRef | None = None
    task: ItemTask | None = None
    agent_name: str | None = None
    agents: int
    """How many agents wait for it."""
    tasks: int | None = None
    """How many open tasks cannot be done before; None if that is not known."""
    usd: float | None = None
    """What its task or plan has cost so far."""
    same: list[ItemPart] | None = None
    """What it stands for, if several have one cause."""
    owner: str | None = None
    owner_name: str | None = None
    note: str | None = None
    marked_by: str | None = None
    snoozed_until: str | None = None
    cleared_at: str | None = None
    actions: list[Act]


class InboxCounts(Answer):
    open: int
    snoozed: int
    given: int
    cleared: int
    folded: int
    """Entries that others stand for, because they have the same cause."""


class InboxAnswer(Answer):
    items: list[InboxItem]
    total: int
    """How many there are of those that were asked for."""
    counts: InboxCounts
    last_seq: int


class InboxPerson(Answer):
    id: str
    name: str
    role: str | None = None


class InboxPeople(Answer):
    """Who can be given an entry: people with a token, and agents that hear of it with their next call."""

    people: list[InboxPerson]
    agents: list[InboxPerson]


class ItemMark(Answer):
    id: str
    title: str
    snoozed_until: str | None = None
    cleared_at: str | None = None
    owner: str | None = None
    owner_name: str | None = None


class MarkedItems(Answer):
    """The entries as they are marked now."""

    items: list[ItemMark]


class InboxOperations:
    """Reads the inbox, and keeps what people put off, clear and give away."""

    traits: ClassVar = Traits(toolset="overview", people_only=True, one_transaction=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    # Reading

    @operation("read")
    def get_inbox(
        self,
        show: Annotated[
            Show, Field(description="What is open, snoozed, given to somebody else, or cleared")
        ] = "open",
        kind: Annotated[str | None, Field(description="Only of this source")] = None,
        run: Annotated[str | None, Field(description="Only of this plan, track or job session")] = None,
    ) -> InboxAnswer:
        """What waits for you, what agents wait for first; with what it blocks and has cost."""
        with self._database.reading() as tx:
            found = read_inbox(self._view_states(tx))
            groups = _group(tx, found)
            chosen = [
                each for each in groups[show] if kind in (None, each.kind) and run in (None, each.run_id)
            ]
            beyond = found.total - len(found.entries) if show == "open" and not (kind or run) else 0
            return InboxAnswer(
                items=_build_items(tx, chosen, found.marks),
                total=len(chosen) + beyond,
                counts=InboxCounts(
                    open=found.total - len(groups["given"]),
                    snoozed=len(groups["snoozed"]),
                    given=len(groups["given"]),
                    cleared=len(groups["cleared"]),
                    folded=sum(len(each.members) - 1 for each in groups["open"]),
                ),
                last_seq=EventStore(tx).get_last_seq(),
            )

    @operation("read")
    def list_inbox_people(self) -> InboxPeople:
        """Who can be given an entry of the inbox: people, and agents that are registered."""
        with self._database.reading() as tx:
            tokens = [each for each in TokenStore(tx).list_all() if each.is_person and each.is_valid(tx.now)]
            agents, _ = AgentStore(tx).list_matching(
                statuses=list(LivingStatus), alive_since=tx.now - _ALIVE_MS, limit=_MAX_PEOPLE
            )
            own = AgentStore(tx).find_registered_by(tx.caller)
            return InboxPeople(
                people=[InboxPerson(id=f"{PERSON_PREFIX}{each.name}", name=each.name) for each in tokens],
                agents=[
                    InboxPerson(id=each.id, name=each.name, role=each.role.value)
                    for each in agents
                    if each.id != own and not (each.metadata or {}).get("human")
                ],
            )

    # Deciding later, or not at all

    @operation("work", for_people=True)
    def snooze_items(
        self, items: Items, until: Annotated[str, Field(description="ISO 8601, at most 90 days ahead")]
    ) -> MarkedItems:
        """Put entries off until a time, or until something new happens with them."""
        with self._database.transaction() as tx:
            moment = parse_timestamp(until, "until")
            if not tx.now < moment <= tx.now + MAX_SNOOZE_MS:
                raise InvalidInput("`until` must be in the future, and at most 90 days ahead.")
            return self._mark(tx, items, snoozed_until=moment, cleared_at=None)

    @operation("work", for_people=True)
    def clear_items(self, items: Items, note: Text | None = None) -> MarkedItems:
        """Clear entries without deciding; one comes back if something new happens with it."""
        with self._database.transaction() as tx:
            noted = {"note": note} if note else {}
            return self._mark(tx, items, cleared_at=tx.now, snoozed_until=None, **noted)

    @operation("work", for_people=True)
    def give_items(
        self,
        items: Items,
        to: Annotated[Id, Field(description="human:NAME, or the id of an agent")],
        note: Text | None = None,
    ) -> MarkedItems:
        """Give entries to another person, or to an agent, which hears of it with its next call."""
        with self._database.transaction() as tx:
            owner = _require_owner(tx, to)
            given = self._mark(tx, items, owner=owner, note=note, snoozed_until=None, cleared_at=None)
            if not owner.startswith(PERSON_PREFIX):
                for each in given.items:
                    _tell_agent(tx, owner, each, note)
            return given

    @operation("work", for_people=True)
    def restore_items(self, items: Items) -> MarkedItems:
        """Undo snoozing, clearing and giving away: the entries wait for you again."""
        with self._database.transaction() as tx:
            return self._mark(tx, items, snoozed_until=None, cleared_at=None, owner=None, note=None)

    def _mark(self, tx: Transaction, items: Sequence[str], **changes: str | int | None) -> MarkedItems:
        """Change the marks of entries; of one that stands for several, of all of them."""
        found = read_inbox(self._view_states(tx))
        known = (*found.entries, *found.hidden)
        chosen = [find_entry(found, item) for item in dict.fromkeys(items)]
        parts = [part for entry in chosen for part in entry.members]
        made = [_change(found.marks, part, tx, changes) for part in parts]
        store = InboxMarkStore(tx)
        store.save(made)
        if found.total <= len(found.entries):  # all of it is known, so what is not in it has been decided
            current = {part.key for entry in known for part in entry.members}
            store.delete([item for item in found.marks if item not in current])
        names = AgentStore(tx).get_names([each.owner for each in made if each.owner])
        marks = {each.item: each for each in made}
        for entry in chosen:
            tx.emit(InboxEvent.UPDATED, _describe_mark(marks, entry, names).model_dump(), entry.run_id)
        return MarkedItems(items=[_describe_mark(marks, entry, names) for entry in chosen])


def _change(
    marks: Mapping[str, InboxMark], entry: Attention, tx: Transaction, changes: Mapping[str, str | int | None]
) -> InboxMark:
    before = marks.get(entry.key) or InboxMark(entry.key, entry.since, tx.caller, tx.now)
    return copy_with(before, seen_since=entry.since, marked_by=tx.caller, marked_at=tx.now, **changes)


def _describe_mark(marks: Mapping[str, InboxMark], entry: Attention, names: Mapping[str, str]) -> ItemMark:
    mark = marks[entry.members[0].key]
    return ItemMark(
        id=entry.key,
        title=entry.title,
        snoozed_until=format_timestamp(mark.snoozed_until) if mark.snoozed_until else None,
        cleared_at=format_timestamp(mark.cleared_at) if mark.cleared_at else None,
        owner=mark.owner,
        owner_name=name_owner(mark.owner, names) if mark.owner else None,
    )


def _require_owner(tx: Transaction, to: str) -> str:
    """Return who gets an entry; a name stands for the person with this name."""
    if to.startswith("ag_"):
        require_registered(AgentStore(tx).get(to))
        return to
    name = to.removeprefix(PERSON_PREFIX).strip()
    if not name or ":" in name:
        raise InvalidInput("`to` is the name of a person, or the id of an agent (ag_...).")
    return f"{PERSON_PREFIX}{name}"


def _tell_agent(tx: Transaction, agent_id: str, item: ItemMark, note: str | None) -> None:
    words = f" {note}" if note else ""
    text = (
        f"A person asks you to look at {quote_line(item.title)} ({item.id}) and to say what you find: with "
        f"message_send, to the one that {tx.caller} registered, or with checkpoint_add on the task.{words}"
    )
    NoticeService(tx).notify_agents([agent_id], NoticeType.MESSAGE, text, about=item.id)


def _group(tx: Transaction, found: Inbox) -> dict[str, list[Attention]]:
    """Group the entries by what people did with them; what was given to the caller is open."""
    groups: dict[str, list[Attention]] = {"open": [], "snoozed": [], "given": [], "cleared": []}
    for each in found.entries:
        mark = find_mark(found.marks, each)
        is_given = mark is not None and mark.owner not in (None, tx.caller)
        groups["given" if is_given else "open"].append(each)
    for each in found.hidden:
        groups["cleared" if found.marks[each.key].cleared_at is not None else "snoozed"].append(each)
    return groups


def _build_items(
    tx: Transaction, entries: Sequence[Attention], marks: Mapping[str, InboxMark]
) -> list[InboxItem]:
    tasks, costs = count_blocked_tasks(tx, entries), _sum_costs(tx, entries)
    found = {each.key: mark for each in entries if (mark := find_mark(marks, each))}
    names = AgentStore(tx).get_names([mark.owner for mark in found.values() if mark.owner])
    return [
        _build_item(each, found.get(each.key), names).model_copy(
            {"tasks": tasks.get(each.key), "usd": costs.get(each.key)}
        )
        for each in entries
    ]


def _build_item(entry: Attention, mark: InboxMark | None, names: Mapping[str, str]) -> InboxItem:
    owner = mark.owner if mark else None
    return InboxItem(
        id=entry.key,
        kind=entry.kind,
        about=entry.id,
        title=entry.title,
        detail=entry.detail,
        because=entry.why,
        next=entry.next,
        since=format_timestamp(entry.since),
        run=RunRef(**entry.run) if entry.run else None,
        task=_build_task(entry),
        agent_name=entry.agent_name,
        agents=entry.agents,
        same=[_build_part(each) for each in entry.same] or None,
        owner=owner,
        owner_name=name_owner(owner, names) if owner else None,
        note=mark.note if mark else None,
        marked_by=mark.marked_by if mark else None,
        snoozed_until=format_timestamp(mark.snoozed_until) if mark and mark.snoozed_until else None,
        cleared_at=format_timestamp(mark.cleared_at) if mark and mark.cleared_at else None,
        actions=list_offers(entry),
    )


def _build_part(entry: Attention) -> ItemPart:
    return ItemPart(
        id=entry.key, about=entry.id, title=entry.title, task=_build_task(entry), actions=list_offers(entry)
    )


def _build_task(entry: Attention) -> ItemTask | None:
    return ItemTask(id=entry.task_id, name=entry.task_name or "") if entry.task_id else None


def _sum_costs(tx: Transaction, entries: Sequence[Attention]) -> dict[str, float]:
    """Sum what the task of each entry has cost, or its plan if it is about no task; left out if nothing."""
    tasks = {part.task_id for each in entries for part in each.members if part.task_id}
    by_task = WorkListStore(tx).sum_task_spending(sorted(tasks)) if tasks else {}
    runs = sorted({each.run_id for each in entries if each.run_id and not each.task_id})
    by_run = WorkListStore(tx).sum_spending(runs) if runs else {}
    found = {}
    for each in entries:
        if each.task_id:
            micros = sum(by_task.get(part.task_id or "", 0) for part in each.members)
        else:
            micros = by_run.get(each.run_id or "", (0, 0))[1]
        if micros:
            found[each.key] = micros / MICROS_PER_USD
    return found
