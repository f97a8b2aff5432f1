"""Progress notifications: strictly increasing, not too many, never after the answer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from deepwork.kernel.protocol import progress as progress_module
from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.progress import BURST, PER_SECOND, SILENT_SECONDS, Progress, SignsOfLife
from protocol.fake_service import PATIENCE_SECONDS, FakeService
from protocol.test_handler import connect
from protocol.transcript import call


class Client:
    """Gets the notifications of one request, by a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.got: list[Mapping[str, Any]] = []
        self.progress = Progress(self.got.append, clock=lambda: self.now)

    @property
    def numbers(self) -> list[float]:
        return [each["progress"] for each in self.got]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.progress.check()


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_report_is_sent_with_what_is_known(client: Client):
    client.progress.report(0)
    client.progress.report(1, 3, "Read a file")

    assert client.got == [{"progress": 0}, {"progress": 1, "total": 3, "message": "Read a file"}]


def test_numbers_increase_strictly_whatever_is_reported(client: Client):
    for done in (2, 2, 1, 0.5, 3, 3):
        client.progress.report(done, 3, "something")
    for _ in range(100):
        client.wait(SILENT_SECONDS)

    assert len(client.numbers) == 106
    assert all(one < next for one, next in pairwise(client.numbers))
    assert all(each["total"] >= each["progress"] for each in client.got if "total" in each)


def test_signs_of_life_do_not_reach_the_number_of_the_next_step(client: Client):
    client.progress.report(1, 3)
    for _ in range(1000):
        client.wait(SILENT_SECONDS)
    client.progress.report(2, 3)

    assert all(each < 2 for each in client.numbers[:-1])
    assert client.got[-1] == {"progress": 2, "total": 3}


def test_a_silent_request_sends_signs_of_life(client: Client):
    client.wait(SILENT_SECONDS - 1)
    assert client.got == []

    client.wait(1)
    client.progress.report(1, 2, "Started a review")
    client.wait(SILENT_SECONDS)

    assert [each["message"] for each in client.got] == [
        "Still working (10 s)",
        "Started a review",
        "Started a review (20 s)",
    ]


def test_many_reports_become_a_few_notifications_and_the_last_is_not_lost(client: Client):
    for number in range(1000):
        client.progress.report(number, 1000)
    assert client.numbers == list(range(BURST))

    client.wait(1 / PER_SECOND)

    assert client.numbers == [*range(BURST), 999]


def test_nothing_is_sent_after_the_end_though_the_message_is_kept(client: Client):
    client.progress.end()
    client.progress.report(1, 2, "late")
    client.wait(SILENT_SECONDS)

    assert client.got == []
    assert client.progress.message == "late"


@pytest.mark.parametrize("error", [RuntimeError("Event loop is closed"), BrokenPipeError()])
def test_work_goes_on_when_its_client_cannot_be_reached(error: Exception):
    attempts = []

    def fail(params: Mapping[str, Any]) -> None:
        attempts.append(params)
        raise error

    progress = Progress(fail)
    progress.report(1)
    progress.report(2)

    assert len(attempts) == 1


def test_one_thread_checks_all_requests_and_ends_with_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_module, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(progress_module, "SILENT_SECONDS", 0)
    heard = [threading.Event(), threading.Event()]
    watched = [Progress(lambda _, each=each: each.set()) for each in heard]  # type: ignore[misc]
    signs = SignsOfLife()

    for each in watched:
        signs.watch(each)
    threads = [each for each in threading.enumerate() if each.name == "deepwork-progress"]
    assert all(each.wait(PATIENCE_SECONDS) for each in heard)
    for each in watched:
        signs.forget(each)
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert len(threads) == 1
    assert not threads[0].is_alive()


def test_a_long_call_sends_signs_of_life_until_its_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_module, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(progress_module, "SILENT_SECONDS", 0)
    service = FakeService()
    service.is_long = lambda request: True  # type: ignore[method-assign]
    handler, peer, sent = connect(service)
    accepted = handler.accept(call("mine", "slow", _meta={"progressToken": "p"}).message, peer)
    assert accepted is not None
    progress_after_answer = []

    def answer() -> None:
        handler.answer(accepted)
        progress_after_answer.append(len(sent))

    worker = threading.Thread(target=answer)
    worker.start()
    _wait_for(lambda: len(sent) >= 3)
    service.may_end.set()
    worker.join(PATIENCE_SECONDS)
    assert accepted.progress is not None
    accepted.progress.check()
    accepted.report_progress(100)

    assert all(one["params"]["progress"] < next["params"]["progress"] for one, next in pairwise(sent))
    assert progress_after_answer == [len(sent)]


def test_a_call_without_a_token_or_listener_reports_to_nobody():
    service = FakeService()
    service.may_end.set()
    handler, peer, sent = connect(service)
    peer.notify = None
    quiet = handler.accept(call("quiet", "slow", _meta={"progressToken": "p"}).message, peer)
    assert quiet is not None

    assert not quiet.can_report
    assert handler.answer(quiet) is not None
    assert (quiet.progress, sent) == (None, [])


def _wait_for(is_true: Any) -> None:
    waiting = threading.Event()
    for _ in range(100 * PATIENCE_SECONDS):
        if is_true():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen")


def test_a_handler_starts_no_thread_by_itself():
    before = threading.active_count()

    MessageHandler(FakeService())

    assert threading.active_count() == before
