"""The scenes of the scripted day: what sensible agents call, depending on what the answers tell them.

An agent makes only the calls that the answers and the tool descriptions make necessary. So where a tool answers
more, or does two things at once, the day becomes shorter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio
from benchmarks.day_project import JOB, REQUEST, build_plan, commit, write

SHORT_LEASE = 2
"""Seconds until Bo's claims expire; those of the others last as long as usual."""


class Session(Protocol):
    """A client of its own server process, whose exchanges are recorded."""

    name: str

    async def call(self, tool: str, **arguments: Any) -> Any: ...

    async def read(self, uri: str) -> str: ...

    def takes(self, tool: str, parameter: str) -> bool: ...


@dataclass(frozen=True)
class Day:
    """What the scenes share."""

    project: Path
    open_session: Callable[..., AbstractAsyncContextManager[Session]]
    begin_scene: Callable[[str], None]


async def run_day(day: Day) -> None:
    """Run all scenes."""
    await run_job(day)
    await run_plan(day)
    await run_tracking(day)
    await run_reviews(day)


async def run_job(day: Day) -> None:
    """Run a job of three steps; its review first fails, and the context is lost once."""
    day.begin_scene("job")
    async with day.open_session("Ada") as ada:
        await ada.call("get_workflows")
        await ada.call(
            "start_workflow", goal="Release notes of version 12", job_name=JOB, workflow_name="main"
        )
        write(day.project, "collect.md", "- Orders can be cancelled (issue 41)\n")
        await ada.call("finished_step", outputs={"collect.md": "collect.md"})
        day.begin_scene("job after compaction")
        await ada.read("deepwork://sessions")
        await ada.call("get_session")
        day.begin_scene("job")
        write(day.project, "write.md", "You can cancel an order until it is sent.\n")
        await ada.call("finished_step", outputs={"write.md": "write.md"}, notes="One change in this release.")
        write(day.project, "write.md", "From Tuesday you can cancel an order until it is sent.\n")
        await ada.call("finished_step", outputs={"write.md": "write.md"})
        write(day.project, "announce.md", "The news page; customers with an account.\n")
        await ada.call("finished_step", outputs={"announce.md": "announce.md"})
    commit(day.project, "Release notes of version 12")


async def run_plan(day: Day) -> None:
    """Run a plan of twelve tasks with three agents; Bo loses a claim, Ada her context."""
    day.begin_scene("plan")
    async with AsyncExitStack() as stack:
        ada, bo, cy = [
            Worker(await stack.enter_async_context(day.open_session(name, **more)))
            for name, more in {"Ada": {}, "Bo": {"lease_seconds": SHORT_LEASE}, "Cy": {}}.items()
        ]
        for worker in (ada, bo, cy):
            await worker.register()
        created = await ada.call(
            "workflow_create",
            name="returns",
            source_type="github_issue",
            source_ref="https://example.org/shop/issues/52",
            source_content=REQUEST,
            max_parallel_tasks=3,
        )
        await ada.call("workflow_set_plan", id=created["id"], plan=build_plan())
        for worker in (ada, bo, cy):
            worker.workflow = created["id"]
        await ada.do_while_others_wait(
            "A return has items, a state and a history; only the warehouse confirms it.",
            bo,
            cy,
            plans_next=True,
        )
        await _build_parts(day, ada, bo, cy)
        await ada.do_while_others_wait(
            "All parts are connected; a failed refund leaves the return open.", bo, cy
        )
        for worker in (bo, cy):
            await worker.begin_next()
        await bo.do_next("A return of one item gives half of the money back; the stock is right.")
        await cy.do_next("The 30 days and gift cards are refused; a second return of an item too.")
        await ada.do_next("Support sees every return with its history, the newest first.")
        await ada.do_while_others_wait("Two pages: for customers and for support.", bo, cy)
        await ada.call("workflow_get_summary", id=created["id"], format="markdown")
        for worker in (ada, bo, cy):
            await worker.call("agent_unregister", id=worker.id)


async def _build_parts(day: Day, ada: Worker, bo: Worker, cy: Worker) -> None:
    """Do the six parallel tasks, with messages between agents, a lost claim and a lost context."""
    await cy.do_next("The page shows the refund before the customer confirms.")
    lost = await bo.begin_next()
    await bo.add_checkpoint(lost, "The tables exist; the history is missing.")
    await anyio.sleep(SHORT_LEASE + 1)  # Bo waits for a build, and his claim expires
    day.begin_scene("messages")
    await exchange_messages(ada, cy)
    day.begin_scene("plan")
    held = await ada.begin_next()
    await ada.call(
        "task_set_plan",
        id=held,
        plan={"approach": "Refund with the id of the return as key.", "steps": ["client", "retry", "test"]},
        agent_id=ada.id,
    )
    await ada.start(held)
    ada.plans_first = False
    await ada.add_checkpoint(held, "The client for the payment provider works; retries are missing.")
    await cy.do_next("Returns are saved with items and history; a second return is refused.")
    day.begin_scene("lost claim")
    await bo.come_back_late(lost)
    day.begin_scene("plan after compaction")
    await ada.call("task_load_context", task_id=held)
    await ada.call("workflow_progress", workflow_id=ada.workflow)
    day.begin_scene("plan")
    await ada.finish(held, "Refunds are made once; the provider's key is the id of the return.")
    for worker, outcome in (
        (bo, "Items go back into stock when the warehouse confirms them."),
        (cy, "The mail has the label attached, and a key that makes a second one impossible."),
        (ada, "Labels are PDFs from the carrier, stored with the return."),
    ):
        await worker.do_next(outcome)


class Worker:
    """An agent that works on the tasks of a plan."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.call = session.call
        self.id = ""
        self.workflow = ""
        self.plans_first = False
        """Whether it plans its next task before it starts it."""
        self._held: str | None = None
        self._offered: list[dict[str, Any]] = []

    async def register(self) -> None:
        self.id = (await self.call("agent_register", name=self._session.name, runtime="claude_code"))["id"]

    async def do_next(self, outcome: str) -> None:
        """Do a task from its claim to its end."""
        task = await self.begin_next()
        await self.add_checkpoint(task, "The first half is written and tested.")
        await self.finish(task, outcome)

    async def do_while_others_wait(self, outcome: str, *others: Worker, plans_next: bool = False) -> None:
        """Do the only task there is, while the others wait for the next one."""
        task = await self.begin_next()
        self.plans_first = plans_next
        async with anyio.create_task_group() as group:
            for other in others:
                group.start_soon(other.wait_for_work)
                await anyio.sleep(0.3)  # in this order, and before the task is done
            await self.add_checkpoint(task, "The first half is written and tested.")
            await self.finish(task, outcome)

    async def begin_next(self) -> str:
        """Find a task, unless the last answer named one: claim it, load its context, start it; return its id."""
        while self._held is None:
            if not self._offered:
                self._offered = (await self.call("workflow_next_tasks", workflow_id=self.workflow))["tasks"]
            await self._claim_first()
        return self._held

    async def _claim_first(self) -> None:
        """Claim the first of the offered tasks that no other agent has taken meanwhile."""
        while self._offered and self._held is None:
            task = str(self._offered.pop(0)["id"])
            if await self._claim(task, is_started=not self.plans_first):
                self._held, self._offered = task, []

    async def _claim(self, task: str, *, is_started: bool) -> bool:
        """Claim the task, load its context, and start it unless it is to be planned first."""
        if self._session.takes("task_claim", "start"):
            more = {"start": True} if is_started else {}
            claim = await self.call(
                "task_claim", task_id=task, agent_id=self.id, include_context=True, **more
            )
            return bool(claim.get("success"))
        claim = await self.call("task_claim", task_id=task, agent_id=self.id)
        if not claim.get("success"):
            return False
        await self.call("task_load_context", task_id=task)
        if is_started:
            await self.start(task)
        return True

    async def start(self, task: str) -> None:
        await self.call("task_update_status", id=task, status="in_progress", agent_id=self.id)

    async def add_checkpoint(self, task: str, summary: str) -> None:
        await self.call("checkpoint_add", task_id=task, type="progress", summary=summary, agent_id=self.id)

    async def finish(self, task: str, outcome: str) -> None:
        done = await self.call(
            "task_update_status", id=task, status="completed", outcome=outcome, agent_id=self.id
        )
        self._held, self._offered = None, done.get("next_tasks", [])
        await self._claim_first()

    async def wait_for_work(self) -> None:
        """Wait until there is a task, or ask why there is none and again later."""
        self._offered = []
        if self._session.takes("workflow_next_tasks", "wait_seconds"):
            found = await self.call("workflow_next_tasks", workflow_id=self.workflow, wait_seconds=30)
            self._offered = found["tasks"]
            return
        found = await self.call("workflow_next_tasks", workflow_id=self.workflow)
        if not found["tasks"] and not found.get("reason"):
            await self.call("workflow_progress", workflow_id=self.workflow)

    async def come_back_late(self, task: str) -> None:
        """Report a task whose claim passed to another agent meanwhile, and find out about it."""
        await self.add_checkpoint(task, "The history is written too.")
        refused = await self.call(
            "task_update_status", id=task, status="completed", outcome="Saved.", agent_id=self.id
        )
        assert refused["code"] == "STALE_CLAIM", refused
        self._held = None
        await self.call("agent_heartbeat", agent_id=self.id)


async def exchange_messages(ada: Worker, cy: Worker) -> None:
    """Ask, answer and inform everybody."""
    asked = await ada.call(
        "message_send",
        sender_id=ada.id,
        recipient_id=cy.id,
        message_type="query",
        subject="Refund on the page",
        body="Does the page show the refund before or after the shipping costs?",
    )
    await cy.call("message_list", agent_id=cy.id)
    await cy.call(
        "message_send",
        sender_id=cy.id,
        recipient_id=ada.id,
        message_type="response",
        body="Before; the shipping costs are in a line of their own.",
        reply_to_id=asked["id"],
    )
    await cy.call("message_mark_read", message_ids=[asked["id"]])
    received = await ada.call("message_list", agent_id=ada.id)
    await ada.call("message_mark_read", message_ids=[each["id"] for each in received["messages"]])
    await ada.call(
        "message_broadcast",
        sender_id=ada.id,
        message_type="notification",
        body="Amounts are in cents everywhere.",
    )
    await cy.call("message_list", agent_id=cy.id)


async def run_tracking(day: Day) -> None:
    """Track work that nobody planned: two phases, three tasks, decisions, a blocker and a lost context."""
    day.begin_scene("tracking")
    async with day.open_session("Ada") as ada:
        started = await ada.call(
            "start_workflow",
            name="slow search",
            objective="The search answers within 200 ms for 95 of 100 customers",
            profile="simple",
            total_phases=2,
        )
        ids = {"workflow_id": started["workflow_id"]}
        phase = await ada.call("start_phase", **ids, number=1, name="Find the cause", is_parallel=True)
        first = await _track_task(
            day, ada, ids | {"phase_id": phase["phase_id"]}, "measure", "shop/search.py"
        )
        await ada.call(
            "log_decision",
            task_id=first,
            category="library_choice",
            question="How do we measure?",
            options_considered=["a profiler", "a log of slow queries"],
            chosen="a log of slow queries",
            reasoning="It shows what customers see, and costs nothing.",
        )
        await _complete_tracked(ada, first, "Three queries take 90 percent of the time.")
        second = await _track_task(
            day, ada, ids | {"phase_id": phase["phase_id"]}, "explain", "shop/index.py"
        )
        await ada.call(
            "log_issue",
            task_id=second,
            type="unclear_requirement",
            description="May the search leave out products that are sold out?",
            resolution="Asked; both variants are prepared.",
            requires_human_review=True,
        )
        await ada.call(
            "log_milestone", task_id=second, message="Two of three queries are explained.", progress=66
        )
        await _complete_tracked(ada, second, "An index on the stock is missing.")
        await ada.call("complete_phase", phase_id=phase["phase_id"], status="completed")
        day.begin_scene("tracking after compaction")
        await ada.call(
            "get_context", **ids, include=["phase_summary", "tasks", "decisions", "milestones", "blockers"]
        )
        await ada.read(f"deepwork://tracking/{ids['workflow_id']}/context")
        day.begin_scene("tracking")
        phase = await ada.call("start_phase", **ids, number=2, name="Cure it")
        third = await _track_task(
            day, ada, ids | {"phase_id": phase["phase_id"]}, "add the index", "shop/stock.py"
        )
        await _complete_tracked(ada, third, "The index exists; the search takes 80 ms.")
        await ada.call("complete_phase", phase_id=phase["phase_id"], status="completed")
        await ada.call(
            "complete_workflow", **ids, status="completed", summary="The search answers within 80 ms."
        )


async def _track_task(day: Day, ada: Session, ids: dict[str, str], name: str, file: str) -> str:
    task = await ada.call(
        "start_task",
        **ids,
        caller_type="subagent",
        agent_name="Ada",
        name=name,
        goal=f"To {name}, with figures",
        areas=[file],
    )
    write(day.project, file, f"# {name}\n")
    return str(task["task_id"])


async def _complete_tracked(ada: Session, task: str, summary: str) -> None:
    await ada.call("complete_task", task_id=task, status="success", outcome={"summary": summary})


async def run_reviews(day: Day) -> None:
    """Review the changes of the day twice: after the first round one file is corrected."""
    day.begin_scene("reviews")
    write(day.project, "shop/login.py", "password = 'tuesday'\n")
    write(day.project, "manual/returns.md", "# Returns\n\nFor customers: how to return.\n")
    async with day.open_session("Ada") as ada:
        await ada.call("get_configured_reviews")
        for text in ("password = 'tuesday'\n", "import getpass\n"):
            write(day.project, "shop/login.py", text)
            instructions = await ada.call("get_review_instructions")
            for path in re.findall(r'prompt: "@(.+)"', instructions):
                due = (day.project / path).read_text()
                if "login.py" not in due or "tuesday" not in text:
                    await ada.call("mark_review_passed", review_id=Path(path).stem)


def parse_answer(text: str) -> Any:
    """Parse an answer; one that is plain text stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
