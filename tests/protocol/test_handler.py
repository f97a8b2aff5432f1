"""Progress, cancellation and unexpected errors, independent of a transport."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from deepwork.kernel.protocol.handler import MessageHandler, ToolAnswer, get_request_id
from deepwork.kernel.protocol.messages import Peer, Response, encode_response, to_json
from protocol.fake_service import PATIENCE_SECONDS, FakeService
from protocol.transcript import INITIALIZE, call, notify, request, wrap


@pytest.fixture
def service() -> FakeService:
    return FakeService()


def connect(service: FakeService) -> tuple[MessageHandler, Peer, list[Any]]:
    """Return a handler, an initialized peer and the list of notifications that it gets."""
    sent: list[Any] = []
    peer = Peer(lambda line: sent.append(json.loads(line)))
    handler = MessageHandler(service)
    handler.handle(request("i", "initialize", INITIALIZE).message, peer)
    return handler, peer, sent


def parse(answer: Response | None) -> Any:
    assert answer is not None
    return json.loads(answer.body)


def test_progress_is_sent_to_those_who_asked_for_it(service: FakeService):
    handler, peer, sent = connect(service)
    service.may_end.set()

    handler.handle(call("quiet", "slow").message, peer)
    assert sent == []

    handler.handle(call("curious", "slow", _meta={"progressToken": "p"}).message, peer)
    assert sent == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "p", "progress": 1, "total": 2, "message": "half"},
        }
    ]


def test_a_cancelled_request_is_interrupted_and_not_answered(service: FakeService):
    handler, peer, _ = connect(service)
    answers: list[Response | None] = []
    accepted = handler.accept(call("mine", "slow").message, peer)
    assert accepted is not None
    worker = threading.Thread(target=lambda: answers.append(handler.answer(accepted)))
    worker.start()
    assert service.is_running.wait(PATIENCE_SECONDS)

    handler.handle(notify("x", "notifications/cancelled", {"requestId": "other"}).message, peer)
    assert not service.is_interrupted.is_set()
    handler.handle(notify("x", "notifications/cancelled", {"requestId": "mine"}).message, peer)
    worker.join(PATIENCE_SECONDS)

    assert answers == [None]


def test_a_request_can_be_cancelled_before_its_answer_is_begun(service: FakeService):
    handler, peer, _ = connect(service)
    accepted = handler.accept(call("mine", "slow").message, peer)
    assert accepted is not None

    handler.handle(notify("x", "notifications/cancelled", {"requestId": "mine"}).message, peer)

    assert handler.answer(accepted) is None
    assert not service.is_running.is_set()


def test_an_answered_request_can_no_longer_be_cancelled(service: FakeService):
    handler, peer, _ = connect(service)
    service.may_end.set()
    handler.handle(call("mine", "slow").message, peer)

    handler.handle(notify("x", "notifications/cancelled", {"requestId": "mine"}).message, peer)

    assert not service.is_interrupted.is_set()


def test_an_unexpected_error_is_logged_and_not_shown(service: FakeService, caplog: pytest.LogCaptureFixture):
    handler, peer, _ = connect(service)
    service.may_end.set()

    answer = parse(handler.handle(call("x", "broken").message, peer))

    assert answer["error"] == {"code": -32603, "message": "Internal server error"}
    assert "a secret" in caplog.text


def test_the_first_request_decides_the_era(service: FakeService):
    handler = MessageHandler(service)
    stateless, older = Peer(), Peer()

    handler.handle(wrap(request("x", "tools/list", {})).message, stateless)
    handler.handle(request("x", "initialize", INITIALIZE).message, older)

    assert (stateless.is_stateless, older.is_stateless) == (True, False)


def test_attachments_follow_the_text_of_an_answer(service: FakeService):
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    handler, peer, _ = connect(service)
    service.call_tool = lambda *_: ToolAnswer("See:", attachments=[image])  # type: ignore[method-assign]

    answer = parse(handler.handle(call("x", "draw").message, peer))

    assert answer["result"]["content"] == [{"type": "text", "text": "See:"}, image]


def test_the_id_of_a_request_is_known_only_while_it_is_answered(service: FakeService):
    seen: list[str | None] = []
    handler, peer, _ = connect(service)
    service.list_prompts = lambda: seen.append(get_request_id()) or []  # type: ignore[method-assign,func-returns-value]

    handler.handle({"jsonrpc": "2.0", "id": 7, "method": "prompts/list"}, peer)

    assert (seen, get_request_id()) == (["7"], None)


def test_names_that_are_not_text_in_utf_8_are_escaped():
    line = encode_response(1, "result", to_json({"file": "a\udc80"}))

    assert json.loads(line)["result"] == {"file": "a\udc80"}
