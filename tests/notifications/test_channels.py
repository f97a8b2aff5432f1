"""What each kind of channel is sent, and that nothing of it goes elsewhere."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from deepwork.views.notifications import sending
from deepwork.views.notifications.models import Channel, ChannelKind, Notification, Thing, build_message
from deepwork.views.notifications.sending import send
from deepwork.views.notifications.settings import NotificationSettings
from notifications.make import SECRET, Receiver, make_channel, verify_webhook

LINK = NotificationSettings(link="https://box.example.org")
MESSAGE = Notification("nm_1", "waits", "An approval waits for you.", "", "/?item=ap_1", 1_800_000_000_000)


def make_command(*argv: str) -> Channel:
    return Channel("nc_command", ChannelKind.COMMAND, "command", 0, argv=argv)


def test_a_webhook_is_signed_and_says_what_waits_with_a_link():
    with Receiver() as receiver:
        outcome = send(make_channel(receiver), MESSAGE, LINK)

    [got] = receiver.got
    verify_webhook(SECRET, got.headers, got.body)
    assert outcome.problem == ""
    assert (got.path, got.headers["webhook-id"]) == ("/hook", "nm_1")
    assert got.said["link"] == "https://box.example.org/?item=ap_1"
    assert got.said["at"] == "2027-01-15T08:00:00.000Z"


def test_a_topic_gets_a_message_that_leads_to_the_page_and_the_token_opens_it():
    with Receiver() as receiver:
        channel = make_channel(receiver, "ntfy", secret="tk_secret", url=f"{receiver.url}/base/alerts")
        outcome = send(channel, MESSAGE, LINK)
        send(channel, MESSAGE, NotificationSettings())

    got, without_link = receiver.got
    assert outcome.problem == ""
    assert (got.path, got.headers["authorization"]) == ("/base", "Bearer tk_secret")
    assert got.said["topic"] == "alerts"
    assert got.said["click"] == "https://box.example.org/?item=ap_1"
    assert "click" not in without_link.said


def test_a_command_gets_the_message_and_no_secret_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DEEPWORK_TOKEN", "a-secret")
    kept = tmp_path / "kept"
    program = f"import os, sys; open({str(kept)!r}, 'w').write(sys.stdin.read() + str(dict(os.environ)))"

    outcome = send(make_command(sys.executable, "-c", program), MESSAGE, LINK)

    assert outcome.problem == ""
    said, _ = json.JSONDecoder().raw_decode(kept.read_text())
    assert (said["id"], said["title"]) == ("nm_1", MESSAGE.title)
    assert "a-secret" not in kept.read_text()


@pytest.mark.parametrize("argv", [("/nowhere/program",), (sys.executable, "-c", "raise SystemExit(3)")])
def test_a_command_that_fails_is_a_problem_and_no_error(argv: tuple[str, ...]):
    assert send(make_command(*argv), MESSAGE, LINK).problem


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sending, "SECONDS", 0.2)

    outcome = send(make_command(sys.executable, "-c", "import time; time.sleep(600)"), MESSAGE, LINK)

    assert "did not end" in outcome.problem


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int):
    with Receiver() as elsewhere, Receiver(statuses=[status]) as receiver:
        receiver.headers = {"location": f"{elsewhere.url}/steal"}
        outcome = send(make_channel(receiver), MESSAGE, LINK)

    assert str(status) in outcome.problem
    assert elsewhere.got == []


@pytest.mark.parametrize(
    ("kind", "status", "is_gone"),
    [("webhook", 410, False), ("ntfy", 404, False), ("webhook", 500, False), ("webhook", 204, False)],
)
def test_only_a_browser_can_be_gone(kind: str, status: int, is_gone: bool):
    with Receiver(statuses=[status]) as receiver:
        outcome = send(make_channel(receiver, kind), MESSAGE, LINK)

    assert (outcome.is_gone, bool(outcome.problem)) == (is_gone, status != 204)


def test_a_channel_may_say_how_long_to_wait_but_not_for_ever():
    with Receiver(statuses=[429, 503], headers={"retry-after": "120"}) as receiver:
        first = send(make_channel(receiver), MESSAGE, LINK)
        receiver.headers = {"retry-after": "99999999"}
        second = send(make_channel(receiver), MESSAGE, LINK)

    assert (first.wait_seconds, second.wait_seconds) == (120, 24 * 3600)


def test_a_server_that_never_ends_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    import threading

    monkeypatch.setattr(sending, "SECONDS", 0.2)
    with Receiver(hold=threading.Event()) as receiver:
        outcome = send(make_channel(receiver), MESSAGE, LINK)
        assert receiver.hold is not None
        receiver.hold.set()

    assert outcome.problem


def test_nobody_listens():
    with Receiver() as receiver:
        channel = make_channel(receiver)

    assert send(channel, MESSAGE, LINK).problem


def test_no_address_and_no_secret_is_in_a_problem_a_log_or_a_representation(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with Receiver(statuses=[500]) as receiver:
        channel = make_channel(receiver, url=f"{receiver.url}/services/T000/the-secret")
        outcomes = [send(channel, MESSAGE, LINK)]
    outcomes.append(send(channel, MESSAGE, LINK))

    said = f"{outcomes} {channel!r} {caplog.text}"
    assert all(each.problem for each in outcomes)
    assert "the-secret" not in said
    assert SECRET not in said


def make_things(*kinds: str) -> list[Thing]:
    return [Thing(f"k{n}", kind, f"id{n}", n, f"Title {n}", "Plan") for n, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "title", "body"),
    [
        (["approval"], "An approval waits for you.", ""),
        (["approval", "approval"], "2 things wait for you.", "2 approvals"),
        (["approval", "failed_task", "approval"], "3 things wait for you.", "2 approvals, a failed task"),
        (["run_ended"], "A run ended.", ""),
        (["run_ended", "blocker"], "A question waits for you. A run ended.", ""),
        (["new_source"], "Something waits for you.", ""),
    ],
)
def test_a_message_says_in_words_how_much_waits(kinds: list[str], title: str, body: str):
    found = build_message("nm_1", make_things(*kinds), 0, says_content=False)

    assert (found.title, found.body) == (title, body)


def test_with_content_a_message_has_the_first_titles():
    found = build_message("nm_1", make_things(*["approval"] * 8), 0, says_content=True)

    lines: list[Any] = found.body.split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("Title 0 (Plan)", "and 3 more", 6)
