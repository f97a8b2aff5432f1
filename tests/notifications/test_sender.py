"""What waits and which runs ended is told once per channel, whoever sends and whenever they end."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool
from approvals.make import ask, decide
from dashboard.make import World
from dashboard.make_agent_runs import start_run
from deepwork.delivery.runner.models import RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalRequest
from deepwork.kernel.values import format_timestamp
from deepwork.views.notifications import web_push
from deepwork.views.notifications.models import Channel, Notification, parse_quiet_hours
from deepwork.views.notifications.sending import SendOutcome
from deepwork.views.notifications.settings import NotificationFile, NotificationSettings
from deepwork.views.notifications.store import CLAIM_MS, NotificationStore
from notifications.make import (
    Browser,
    Receiver,
    make_browser_channel,
    make_channel,
    make_file,
    make_sender,
    save,
    verify_authorization,
)
from overview.make import make_plan


@pytest.fixture
def world(app: Application, clock: Clock) -> World:
    plan, tasks = make_plan(app)
    clock.advance(seconds=1)
    return World(plan=plan, planned=tasks | {"backend": tasks["build"]})


@pytest.fixture
def file(tmp_path: Path) -> NotificationFile:
    return make_file(tmp_path)


class Post:
    """A place that keeps its messages, and answers with the next of these outcomes."""

    def __init__(self, *outcomes: SendOutcome) -> None:
        self.got: list[tuple[str, Notification]] = []
        self._outcomes = list(outcomes)

    def __call__(
        self, channel: Channel, message: Notification, settings: NotificationSettings
    ) -> SendOutcome:
        self.got.append((channel.id, message))
        return self._outcomes.pop(0) if self._outcomes else SendOutcome()

    @property
    def kinds(self) -> list[list[str]]:
        return [[each["kind"] for each in message.things] for _, message in self.got]


def make_one(app: Application, name: str = "one", **about: Any) -> Channel:
    with app.database.reading() as tx:
        now = tx.now
    with Receiver() as nobody:
        channel = make_channel(nobody, id=f"nc_{name}", name=name, added_at=now)
    return replace(channel, **about)


def ask_for(app: Application, world: World, subject: str = "ship") -> Approval:
    shown = {"name": subject, "outcome": "The secret of the house."}
    return ask(app, ApprovalRequest(ApprovalKind.TASK, world.planned[subject], world.plan, shown))


def test_what_begins_to_wait_is_told_once_to_each_channel(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    ask_for(app, world, "design")
    clock.advance(seconds=60)
    save(file, make_one(app, "a"), make_one(app, "b"))
    post = Post()
    sender = make_sender(app, file, post)
    assert sender.work() == 0  # that waited before the channels were added

    asked = ask_for(app, world)
    sender.work()
    sender.work()
    clock.advance(seconds=25)
    sender.work()

    assert [id for id, _ in post.got] == ["nc_a", "nc_b"]
    _, message = post.got[0]
    assert (message.kind, message.path) == ("waits", f"/?item=approval:{asked.id}")
    assert post.kinds == [["approval"], ["approval"]]


def test_what_waits_again_is_told_again(app: Application, world: World, clock: Clock, file: NotificationFile):
    def move(status: str) -> None:
        clock.advance(seconds=1)
        call_tool(app, "workflow_update_status", id=world.plan, status=status)
        sender.work()

    save(file, make_one(app))
    post = Post()
    sender = make_sender(app, file, post)
    move("paused")
    move("in_progress")
    with app.database.reading() as tx:
        assert NotificationStore(tx).list_things("nc_one") == {}  # what is over is forgotten

    move("paused")

    assert post.kinds == [["waiting_plan"], ["waiting_plan"]]
    assert len({message.id for _, message in post.got}) == 2


def test_what_is_answered_soon_is_not_told(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    save(file, make_one(app), delay_seconds=10)
    post = Post()
    sender = make_sender(app, file, post)
    asked = ask_for(app, world)
    sender.work()
    clock.advance(seconds=9)
    decide(app, asked.id)
    sender.work()
    asked = ask_for(app, world, "backend")
    clock.advance(seconds=30)  # nothing happened meanwhile: it is looked at anyway
    sender.work()

    assert [message.things[0]["id"] for _, message in post.got] == [asked.id]


def test_messages_have_no_text_of_tasks_unless_that_was_asked_for(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    for says_content in (False, True):
        clock.advance(seconds=1)
        save(file, make_one(app, str(says_content)), says_content=says_content)
        post = Post()
        clock.advance(seconds=1)
        asked = ask_for(app, world, "ship" if says_content else "backend")
        make_sender(app, file, post).work()

        [(_, message)] = post.got
        told = str(message.to_dict("https://box.example.org"))
        assert ("Login" in told, "Approve the work on" in told) == (says_content, says_content)
        assert "secret of the house" not in told
        assert (
            message.to_dict("https://box.example.org")["link"]
            == f"https://box.example.org/?item=approval:{asked.id}"
        )


def test_the_end_of_a_run_is_told_once(app: Application, world: World, clock: Clock, file: NotificationFile):
    run = start_run(app, world.plan)
    clock.advance(seconds=60)
    save(file, make_one(app))
    post = Post()
    sender = make_sender(app, file, post)
    sender.work()
    RunService(app.database).set_status(run.id, RunStatus.DONE, "All done.")

    sender.work()
    sender.work()
    clock.advance(seconds=25 * 3600)
    sender.work()
    sender.work()

    assert [(message.kind, message.path) for _, message in post.got] == [("run_ended", f"/runs/{world.plan}")]
    with app.database.reading() as tx:
        assert NotificationStore(tx).list_things("nc_one") == {}


def test_in_quiet_hours_nothing_is_sent_and_at_their_end_what_still_waits_in_one_message(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    night = datetime(2027, 1, 20, 23, 0, tzinfo=UTC)
    clock.now = int(night.timestamp() * 1000)
    save(file, make_one(app))
    call_tool(app, "workflow_update_status", id=world.plan, status="paused", reason="Lunch.")
    file.change(lambda settings: replace(settings, quiet=parse_quiet_hours("22:00", "07:00", "UTC")))
    post = Post()
    sender = make_sender(app, file, post)
    clock.advance(seconds=1)
    kept, answered = ask_for(app, world), ask_for(app, world, "backend")
    sender.work()
    clock.advance(seconds=3600)
    decide(app, answered.id)
    sender.work()
    assert post.got == []

    clock.advance(seconds=7 * 3600)
    sender.work()
    sender.work()

    [(_, message)] = post.got
    assert [each["id"] for each in message.things] == [world.plan, kept.id]
    began = int(datetime(2027, 1, 20, 22, 0, tzinfo=UTC).timestamp() * 1000)
    assert message.path == f"/since/{format_timestamp(began)}"


def test_a_channel_that_fails_is_tried_again_later_with_the_same_id_and_hinders_no_other(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    save(file, make_one(app, "a"), make_one(app, "b"))
    post = Post(
        SendOutcome("It answered 500."), SendOutcome(), SendOutcome("It answered 503.", wait_seconds=600)
    )
    sender = make_sender(app, file, post)
    ask_for(app, world)

    def read_problem() -> str | None:
        with app.database.reading() as tx:
            return NotificationStore(tx).find_states(["nc_a"])["nc_a"].problem

    sender.work()
    assert read_problem() == "It answered 500."
    clock.advance(seconds=29)
    sender.work()
    assert [id for id, _ in post.got] == ["nc_a", "nc_b"]
    clock.advance(seconds=1)
    sender.work()
    clock.advance(seconds=599)
    sender.work()
    assert [id for id, _ in post.got] == ["nc_a", "nc_b", "nc_a"]
    clock.advance(seconds=1)
    sender.work()

    assert [id for id, _ in post.got] == ["nc_a", "nc_b", "nc_a", "nc_a"]
    assert len({message.id for id, message in post.got if id == "nc_a"}) == 1
    assert read_problem() is None


def test_a_sender_that_was_killed_while_it_sent_leaves_the_message_to_the_next_one(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    class Killed(BaseException):
        """Nothing of ours runs after it."""

    def die(*_: Any) -> SendOutcome:
        raise Killed

    save(file, make_one(app))
    ask_for(app, world)
    with pytest.raises(Killed):
        make_sender(app, file, die).work()
    post = Post()
    other = make_sender(app, file, post)
    other.work()
    assert post.got == []  # as far as anybody knows, it is being sent

    clock.advance(seconds=CLAIM_MS // 1000 + 1)
    other.work()
    other.work()

    assert post.kinds == [["approval"]]


@pytest.mark.differs
def test_of_many_senders_at_once_one_tells(app: Application, world: World, file: NotificationFile):
    save(file, make_one(app))
    post, ready = Post(), threading.Barrier(6)
    asked = ask_for(app, world)

    def work(_: int) -> int:
        sender = make_sender(app, file, post)
        ready.wait(60)
        return sender.work()

    with ThreadPoolExecutor(6) as senders:
        sent = sum(senders.map(work, range(6)))

    assert sent == 1
    assert [message.things[0]["id"] for _, message in post.got] == [asked.id]


def test_an_older_look_neither_adds_nor_removes_anything(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    channel = make_one(app)
    save(file, channel)
    asked = ask_for(app, world)
    late, post = make_sender(app, file, Post()), Post()
    old = late._look(force=True)
    clock.advance(seconds=1)
    decide(app, asked.id)
    make_sender(app, file, post).work()

    late._note(channel, old, 0)

    # Nobody had told it, so nothing was stored, and the old look is the first: then it is the newest one.
    with app.database.transaction() as tx:
        tx.execute("UPDATE notification_channels SET looked_at = looked_at + 5000")
        tx.execute("DELETE FROM notifications")
    late._note(channel, old, 0)
    with app.database.reading() as tx:
        assert NotificationStore(tx).list_things(channel.id) == {}


def test_a_browser_gets_an_encrypted_message_and_one_that_is_gone_is_removed(
    app: Application, world: World, clock: Clock, file: NotificationFile
):
    browser = Browser()
    with Receiver(statuses=[201, 410]) as service:
        channel = make_browser_channel(service, browser, origin="https://box.example.org")
        save(file, channel, push_key=web_push.generate_key())
        sender = make_sender(app, file)
        asked = ask_for(app, world)
        sender.work()
        clock.advance(seconds=1)
        ask_for(app, world, "backend")
        sender.work()
        sender.work()

    first = service.got[0]
    told = json.loads(browser.decrypt(first.body))
    assert (told["path"], told["kind"]) == (f"/?item=approval:{asked.id}", "waits")
    claims = verify_authorization(first.headers["authorization"])
    assert (claims["aud"], claims["sub"]) == (service.url, "https://box.example.org")
    assert (first.headers["content-encoding"], first.headers["urgency"]) == ("aes128gcm", "high")
    assert int(first.headers["ttl"]) > 0
    assert len(first.headers["topic"]) == 32
    assert len(service.got) == 2
    assert file.load().channels == ()
    with app.database.reading() as tx:
        assert NotificationStore(tx).find_states([channel.id]) == {}


def test_one_process_of_a_user_sends_for_a_store(app: Application, file: NotificationFile):
    save(file)
    one, other = make_sender(app, file), make_sender(app, file)

    held = one.lock("store")

    assert held is not None
    assert other.lock("store") is None
    assert other.lock("another") is not None
