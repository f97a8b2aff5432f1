"""The tasks extension, independent of a transport: a slow call becomes a task that the client polls."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from deepwork.kernel.protocol import tasks as tasks_module
from deepwork.kernel.protocol.handler import MessageHandler, ToolAnswer
from deepwork.kernel.protocol.messages import Peer, Request, RequestError, Response
from deepwork.kernel.protocol.tasks import KEPT_SECONDS, Tasks
from protocol.fake_service import PATIENCE_SECONDS, FakeService
from protocol.task_client import CAPABILITIES
from protocol.transcript import Step, call, request, wrap

UNKNOWN = -32602
MISSING_CAPABILITY = -32021


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "GRACE_SECONDS", 0.05)


@pytest.fixture
def service() -> FakeService:
    return FakeService()


class Client:
    """A stateless client; each of its requests may come from another caller."""

    def __init__(self, service: FakeService) -> None:
        self.handler = MessageHandler(service)
        self.sent: list[Any] = []

    def ask(self, step: Step, caller: Any = None) -> Any:
        peer = Peer(lambda line: self.sent.append(json.loads(line)), is_stateless=True)
        answer = self.handler.handle(step.message, peer, caller)
        assert isinstance(answer, Response)
        return json.loads(answer.body)

    def call(self, tool: str = "slow", caller: Any = None, **meta: Any) -> Any:
        return self.ask(wrap(call("mine", tool, _meta=CAPABILITIES | meta)), caller)["result"]

    def ask_for(self, task: Any, method: str = "tasks/get", caller: Any = None, **more: Any) -> Any:
        params = {"taskId": task["taskId"], "_meta": CAPABILITIES, **more}
        return self.ask(wrap(request("about", method, params)), caller)

    def wait_for_end(self, task: Any) -> Any:
        end = time.monotonic() + PATIENCE_SECONDS
        while (found := self.ask_for(task)["result"])["status"] == "working":
            assert time.monotonic() < end
            time.sleep(0.01)
        return found


@pytest.fixture
def client(service: FakeService) -> Client:
    return Client(service)


def test_a_slow_call_becomes_a_task_with_the_result_that_the_call_would_have_had(
    client: Client, service: FakeService
):
    created = client.call()
    working = client.ask_for(created)["result"]
    service.may_end.set()
    completed = client.wait_for_end(created)
    direct = client.call()

    assert (created["resultType"], created["status"]) == ("task", "working")
    assert (working["resultType"], working["status"]) == ("complete", "working")
    assert (completed["resultType"], completed["status"]) == ("complete", "completed")
    assert completed["result"] == direct
    assert direct["content"] == [{"type": "text", "text": "done"}]


def test_a_task_has_the_fields_of_the_specification(client: Client, service: FakeService):
    created = client.call()
    service.may_end.set()
    completed = client.wait_for_end(created)

    assert set(created) - {"_meta", "resultType"} == {
        "taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs",
    }  # fmt: skip
    assert created["statusMessage"] == "half"
    assert created["ttlMs"] >= 1000 * KEPT_SECONDS
    assert completed["createdAt"] == created["createdAt"]
    assert created["createdAt"] <= completed["lastUpdatedAt"]
    assert len(created["taskId"]) == 32
    assert "statusMessage" not in completed


def test_a_quick_call_is_answered_directly(client: Client, service: FakeService):
    service.may_end.set()

    assert client.call()["resultType"] == "complete"


def test_only_clients_that_know_tasks_get_one(client: Client, service: FakeService):
    threading.Timer(0.3, service.may_end.set).start()

    answer = client.ask(wrap(call("mine", "slow")))

    assert answer["result"]["resultType"] == "complete"


@pytest.mark.parametrize("extensions", [None, [], {"io.modelcontextprotocol/tasks": True}, {"other": {}}])
def test_a_malformed_declaration_counts_as_none(client: Client, service: FakeService, extensions: Any):
    service.may_end.set()
    meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}}
    asked = wrap(request("x", "tasks/get", {"taskId": "x", "_meta": meta}))

    assert client.ask(asked)["error"]["code"] == MISSING_CAPABILITY


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_a_client_that_does_not_declare_the_extension_learns_what_to_declare(client: Client, method: str):
    params = {"taskId": "x", "inputResponses": {}}

    error = client.ask(wrap(request("x", method, params)))["error"]

    assert error["code"] == MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_a_server_whose_tools_offer_no_tasks_does_not_have_the_extension(
    client: Client, service: FakeService
):
    offered = client.ask(wrap(request("d", "server/discover", {})))["result"]["capabilities"]
    service.offers_tasks = False
    not_offered = client.ask(wrap(request("d", "server/discover", {})))["result"]["capabilities"]

    assert offered["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert "extensions" not in not_offered
    assert client.ask_for({"taskId": "x"})["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_an_unknown_task_and_one_of_another_caller_get_the_same_error(
    client: Client, service: FakeService, method: str
):
    created = client.call(caller="ada")
    more: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}

    of_another = client.ask_for(created, method, "eve", **more)["error"]
    unknown = client.ask_for({"taskId": "x"}, method, "ada", **more)["error"]
    own = client.ask_for(created, "tasks/get", "ada")["result"]
    service.may_end.set()

    assert of_another == unknown
    assert unknown["code"] == UNKNOWN
    assert "idempotency key" in unknown["data"]["suggestion"]
    assert own["status"] == "working"
    assert not service.is_interrupted.is_set()


@pytest.mark.parametrize("params", [{}, {"taskId": 5}])
def test_a_task_id_must_be_text(client: Client, params: dict[str, Any]):
    asked = wrap(request("x", "tasks/get", {**params, "_meta": CAPABILITIES}))

    assert client.ask(asked)["error"]["code"] == UNKNOWN


def test_a_cancelled_task_stops_its_call(client: Client, service: FakeService):
    service.call_tool = fail_when_cancelled(service.call_tool)  # type: ignore[method-assign]
    created = client.call()

    acknowledged = client.ask_for(created, "tasks/cancel")["result"]
    ended = client.wait_for_end(created)

    assert set(acknowledged) == {"resultType", "_meta"}
    assert service.is_interrupted.is_set()
    assert (ended["status"], "result" in ended) == ("cancelled", False)


def fail_when_cancelled(call_tool: Callable[..., ToolAnswer]) -> Callable[..., ToolAnswer]:
    def call(request: Request, *given: Any) -> ToolAnswer:
        answer = call_tool(request, *given)
        return ToolAnswer("stopped", is_error=True) if request.is_cancelled else answer

    return call


def test_a_call_that_succeeds_although_it_was_cancelled_is_completed(client: Client):
    created = client.call()

    client.ask_for(created, "tasks/cancel")
    ended = client.wait_for_end(created)
    again = client.ask_for(created, "tasks/cancel")

    assert ended["status"] == "completed"
    assert "error" not in again


def test_responses_to_questions_that_no_task_asks_are_acknowledged(client: Client, service: FakeService):
    created = client.call()
    answer = client.ask_for(created, "tasks/update", inputResponses={"x": {"action": "accept"}})
    service.may_end.set()

    assert set(answer["result"]) == {"resultType", "_meta"}


def test_an_error_of_a_tool_is_a_result(client: Client, service: FakeService):
    service.call_tool = wait_then(service, lambda: ToolAnswer("no", is_error=True))  # type: ignore[method-assign]
    created = client.call()
    service.may_end.set()
    ended = client.wait_for_end(created)

    assert (ended["status"], ended["result"]["isError"]) == ("completed", True)


def wait_then(service: FakeService, act: Callable[[], ToolAnswer]) -> Callable[..., ToolAnswer]:
    def call(*_: Any) -> ToolAnswer:
        assert service.may_end.wait(PATIENCE_SECONDS)
        return act()

    return call


def test_an_error_of_the_protocol_is_a_failure(client: Client, service: FakeService):
    def refuse() -> ToolAnswer:
        raise RequestError(-32000, "no", {"why": "because"})

    service.call_tool = wait_then(service, refuse)  # type: ignore[method-assign]
    created = client.call()
    service.may_end.set()
    ended = client.wait_for_end(created)

    assert (ended["status"], ended["statusMessage"]) == ("failed", "no")
    assert ended["error"] == {"code": -32000, "message": "no", "data": {"why": "because"}}


def test_an_unexpected_error_is_logged_and_not_shown(
    client: Client, service: FakeService, caplog: pytest.LogCaptureFixture
):
    created = client.call("broken")
    service.may_end.set()
    ended = client.wait_for_end(created)

    assert (ended["status"], ended["error"]) == (
        "failed",
        {"code": -32603, "message": "Internal server error"},
    )
    assert "a secret" in caplog.text


def test_a_task_sends_no_notifications_and_its_status_has_the_last_message(
    client: Client, service: FakeService
):
    def report(request: Request, *_: Any) -> ToolAnswer:
        request.report_progress(1, 3, "early")
        service.is_running.set()
        assert service.may_end.wait(PATIENCE_SECONDS)
        request.report_progress(2, 3, "late")
        service.is_interrupted.set()
        assert may_return.wait(PATIENCE_SECONDS)
        return ToolAnswer("done")

    may_return = threading.Event()
    service.call_tool = report  # type: ignore[method-assign,assignment]
    created = client.call(progressToken="p")
    service.may_end.set()
    assert service.is_interrupted.wait(PATIENCE_SECONDS)
    working = client.ask_for(created)["result"]
    may_return.set()

    assert [each["params"]["message"] for each in client.sent] == ["early"]
    assert working["statusMessage"] == "late"


# how many, and for how long


class Kept:
    """Tasks by a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tasks = Tasks(clock=lambda: self.now)
        self.may_end: dict[str, threading.Event] = {}

    def start(self, name: str = "x") -> Any:
        event = self.may_end[name] = threading.Event()

        def work() -> dict[str, Any]:
            assert event.wait(PATIENCE_SECONDS)
            return {"isError": False}

        return self.tasks.run(Request(name, "tools/call", {}), "me", work)

    def end(self, name: str, task: Any) -> None:
        self.may_end[name].set()
        end = time.monotonic() + PATIENCE_SECONDS
        while self.tasks.find(task["taskId"], "me").ended_at is None:
            assert time.monotonic() < end
            time.sleep(0.001)

    def is_known(self, task: Any) -> bool:
        try:
            self.tasks.find(task["taskId"], "me")
        except RequestError:
            return False
        return True


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_task_is_dropped_an_hour_after_its_end_and_never_before(kept: Kept):
    task = kept.start()
    kept.now += 10 * KEPT_SECONDS
    was_known_while_running = kept.is_known(task)
    kept.end("x", task)
    kept.now += KEPT_SECONDS - 1
    was_known_before_its_time = kept.is_known(task)
    described = kept.tasks.find(task["taskId"], "me").describe()
    kept.now += 1

    assert (was_known_while_running, was_known_before_its_time, kept.is_known(task)) == (True, True, False)
    assert described["ttlMs"] == 1000 * 11 * KEPT_SECONDS


def test_the_task_that_ended_first_makes_room(kept: Kept, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks_module, "MAX_KEPT", 3)
    tasks = {name: kept.start(name) for name in ("running", "second", "first")}
    for name in ("first", "second"):
        kept.now += 1
        kept.end(name, tasks[name])

    tasks["new"] = kept.start("new")

    assert {name: kept.is_known(task) for name, task in tasks.items()} == {
        "running": True, "second": True, "first": False, "new": True,
    }  # fmt: skip
    for event in kept.may_end.values():
        event.set()


def test_while_too_many_run_a_call_is_answered_directly(kept: Kept, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tasks_module, "MAX_RUNNING", 1)
    running = kept.start("one")
    in_this_thread: list[bool] = []
    this = threading.current_thread()

    kept.tasks.run(
        Request("two", "tools/call", {}),
        "me",
        lambda: in_this_thread.append(threading.current_thread() is this) or {},  # type: ignore[func-returns-value]
    )
    kept.end("one", running)

    assert in_this_thread == [True]


def test_a_server_that_ends_cancels_its_tasks_and_creates_no_more(client: Client, service: FakeService):
    created = client.call()

    client.handler.tasks.end()
    client.wait_for_end(created)
    client.handler.tasks.finish()
    service.may_end.set()
    direct = client.call()

    assert service.is_interrupted.is_set()
    assert direct["resultType"] == "complete"
