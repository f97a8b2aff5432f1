"""What people tell the agents of runs: words that follow a task from attempt to attempt.

Words are notices for whoever works on a task. An answer of a tool or a hook carries them to an agent at work;
what nothing carried opens its next start; a new session gets all of them, because it knows nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.models import Attempt, AttemptStage, RunEvent
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.answers import Answer, Field, Id, IsoTime
from deepwork.kernel.call import PERSON_PREFIX, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, NotAllowed, NotFound
from deepwork.kernel.foreign_text import to_one_line
from deepwork.kernel.notices.models import MAX_TEXT, Notice, NoticeType
from deepwork.kernel.notices.store import NoticeDraft, NoticeService, NoticeStore
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import copy_with, format_optional_timestamp
from deepwork.work.plans.recorder import APPROVAL
from deepwork.work.plans.stores.task_store import TaskStore

MAX_WORDS = 100
"""How many words one task shows, and one prompt has: the newest."""
TOLD = "A person told it something."
"""Why an agent that has ended is started again."""
_FOLLOW = "Follow what people say here, also where it differs from what is written below."
Reach = Literal["next_call", "next_start", "next_agent", "refusal", "never"]


# Rules


def judge_reach(attempt: Attempt | None, *, is_over: bool, waits_for_approval: bool = False) -> Reach:
    """Return with what words arrive that nothing has carried yet; `attempt` is the open one at the task.

    Work that waits for an approval is over with it: its agent hears of it only if a person refuses.
    """
    if waits_for_approval:
        return "refusal"
    if is_over and (attempt is None or attempt.stage is not AttemptStage.RUNNING):
        return "never"
    if attempt is None:
        return "next_agent"
    is_interrupted = attempt.interrupted_by is not None
    hears = attempt.stage is AttemptStage.RUNNING and get_adapter(attempt.vendor).has_hooks
    return "next_call" if hears and not is_interrupted else "next_start"


def choose_words(known: Sequence[Notice], attempt: Attempt, *, is_new_session: bool) -> list[Notice]:
    """Choose what the prompt of a start says: what nothing carried, and for a new session everything.

    What this very start has carried is said again: a killed runner may not have started the agent.
    """
    own = (attempt.id, attempt.starts)
    return [
        each
        for each in known
        if is_new_session or each.carried_at is None or (each.attempt_id, each.start) == own
    ]


class PromptWords(NamedTuple):
    """Words of a person, under the heading that they get in a prompt."""

    heading: str
    text: str


def open_prompt(words: Sequence[PromptWords], prompt: str, *, is_new_session: bool) -> str:
    """Put words of people at the top of a prompt."""
    parts = [f"# {each.heading}\n\n{each.text.strip()}" for each in words]
    if words and is_new_session:
        parts.append(_FOLLOW)
    return "\n\n".join([*parts, prompt])


def name_person(caller: str) -> str:
    """Return the name of a person, on one line."""
    return to_one_line(caller.removeprefix(PERSON_PREFIX))


# In prompts


def take_words(tx: Transaction, attempt: Attempt, *, is_new_session: bool) -> list[PromptWords]:
    """Return what people say to a start of an attempt, and remember that it heard it."""
    store = NoticeStore(tx)
    chosen = choose_words(
        store.list_words(attempt.task_id, MAX_WORDS), attempt, is_new_session=is_new_session
    )
    if unheard := [each.id for each in chosen if each.attempt_id != attempt.id]:
        store.mark_repeated(unheard)
    return [_say(tx, each) for each in chosen]


def _say(tx: Transaction, notice: Notice) -> PromptWords:
    """Return what a person said; a refusal in the person's own words."""
    name = name_person(notice.by_whom)
    if notice.type is NoticeType.REFUSED and notice.about is not None:
        return PromptWords(
            f"{name} refused your work", ApprovalStore(tx).get(notice.about).comment or "No comment."
        )
    return PromptWords(f"{name} says", notice.text)


def has_unheard_words(tx: Transaction, task_id: str) -> bool:
    """Return whether a person told something that nothing has carried yet."""
    return any(each.carried_at is None for each in NoticeStore(tx).list_words(task_id, MAX_WORDS))


# For people


class Word(Answer):
    """What a person told whoever works on a task."""

    id: str
    task_id: str
    task_name: str
    at: IsoTime
    by: str
    text: str
    delivered_at: IsoTime | None = None
    attempt_id: str | None = None
    """The attempt that it was delivered to last."""
    start: int | None = None
    """The start of that attempt, in which it was delivered."""
    reaches: Reach | None = None
    """With what it arrives, if it was not delivered yet."""


class Words(Answer):
    words: list[Word]


class WordOperations:
    """What people tell the agents of runs, and whether it arrived."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("work", for_people=True)
    def tell(
        self,
        to: Annotated[Id, Field(description="A task, or an attempt, an agent or a run at work on one")],
        text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)],
        now: Annotated[bool, Field(description="Interrupt the agent, and let it continue with this")] = False,
    ) -> Words:
        """Tell whoever works on a task something; it follows the task from attempt to attempt."""
        with self._database.transaction() as tx:
            if not is_person(tx.caller):
                raise NotAllowed("Only a person can tell agents what to do.", code=Code.UNAUTHORIZED)
            tasks = _find_open_tasks(tx, to)
            workflows = {each.id: each.workflow_id for each in TaskStore(tx).find_by_ids(tasks).values()}
            NoticeService(tx).add(
                [
                    NoticeDraft(None, NoticeType.MESSAGE, text, workflows.get(id) or id.partition("/")[0], id)
                    for id in tasks
                ]
            )
            if now:
                _interrupt(tx, tasks)
            return Words(words=[list_words(tx, id)[-1] for id in tasks])

    @operation("read")
    def list_words(self, to: Annotated[Id, Field(description="A task, attempt, agent or run")]) -> Words:
        """What people told whoever works on a task, and when it was delivered, the oldest first."""
        with self._database.reading() as tx:
            tasks = [] if to.startswith("tt_") else _find_tasks(tx, to)  # nobody is told about tracked work
            found = [word for id in tasks for word in list_words(tx, id)]
            return Words(words=sorted(found, key=lambda word: word.at)[-MAX_WORDS:])


def list_unheard(tx: Transaction, task_id: str) -> list[Word]:
    """List what people told about a task and nobody has heard, the oldest first."""
    return [each for each in list_words(tx, task_id) if each.reaches is not None]


def list_words(tx: Transaction, task_id: str) -> list[Word]:
    """List what people told whoever works on a task, the oldest first."""
    known = NoticeStore(tx).list_words(task_id, MAX_WORDS)
    found = [each for each in known if each.type is NoticeType.MESSAGE]
    if not found:
        return []
    attempt = AttemptStore(tx).find_open_of_task(task_id)
    task = TaskStore(tx).find_by_ids([task_id]).get(task_id)
    reach = judge_reach(
        attempt,
        is_over=task is not None and task.status.is_done,
        waits_for_approval=task is not None and task.waits_for == APPROVAL,
    )
    name = task.name if task else task_id.rpartition("/")[2]
    return [
        Word.of(
            each,
            task_id=task_id,
            task_name=name,
            by=each.by_whom,
            delivered_at=format_optional_timestamp(each.carried_at),
            reaches=reach if each.carried_at is None else None,
        )
        for each in found
    ]


def _find_tasks(tx: Transaction, to: str) -> list[str]:
    """Return the tasks that words to this are for."""
    attempts = AttemptStore(tx)
    if to.startswith("rn_"):
        if RunStore(tx).find(to) is None:
            raise build_missing_run_error(to)
        return list(dict.fromkeys(each.task_id for each in attempts.list_of_run(to)))
    if to.startswith("at_"):
        return [attempts.get(to).task_id]
    if to.startswith("ag_"):
        if found := attempts.find_of_agent(to):
            return [found.task_id]
        raise NotFound("agent", to, suggestion="It is not an agent of a run: send it a message.")
    if "/" not in to:
        TaskStore(tx).get(to)
    elif not attempts.list_of_task(to):
        raise NotFound(
            "task", to, suggestion="The id of a step at which an agent worked is SESSION_ID/STEP_ID."
        )
    return [to]


def _find_open_tasks(tx: Transaction, to: str) -> list[str]:
    """Return the tasks whose agents, now or later, can hear words to this; raises if there is none."""
    if to.startswith("rn_"):
        at_work = {each.task_id for each in AttemptStore(tx).list_of_run(to, is_open=True)}
        found = [id for id in _find_tasks(tx, to) if id in at_work]
        if not found:
            raise NotAllowed(f"No agent of run {to} is at work.", suggestion="Tell it to a task of the run.")
        return found
    [task_id] = _find_tasks(tx, to)
    task = TaskStore(tx).find_by_ids([task_id]).get(task_id)
    if task is not None and task.status.is_done:
        raise NotAllowed(
            f"Task {task.name!r} is done, so no agent hears this.",
            suggestion=f"Open it again with `deepwork tasks retry {task_id}`, then tell it.",
        )
    return [task_id]


def _interrupt(tx: Transaction, task_ids: Iterable[str]) -> None:
    """Let the runners end these agents and start them again."""
    store = AttemptStore(tx)
    for attempt in filter(None, map(store.find_open_of_task, task_ids)):
        after: Attempt = copy_with(attempt, interrupted_by=tx.caller, updated_at=tx.now)
        if attempt.stage is AttemptStage.RUNNING and store.save(attempt, after):
            tx.emit(RunEvent.ATTEMPT_UPDATED, build_payload(describe_attempt(after)), after.workflow_id)
