"""Log lines and traces of a running server."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from deepwork.edge.server.http.metrics import TokenRedactionFilter
from deepwork.views.observability.calls import start_tracing
from deepwork.views.observability.logs import JsonHandler, StderrToLog
from http_tests.http_server import HttpServer, McpSession
from observability.collector import Collector
from protocol.stdio_server import StdioServer

WORDS = "words of nobody's business"
ERROR_STATUS = 2
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def call_tool(wire: StdioServer, tool: str, meta: dict[str, str] | None = None, **arguments: Any) -> Any:
    asked = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return wire.request("tools/call", asked)


def parse_lines(text: str) -> list[dict[str, Any]]:
    """Parse every line, which must be a JSON object."""
    read = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(line, dict) for line in read)
    return read


def list_call_lines(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if "duration_ms" in line]


def test_over_stdio_the_log_is_json_and_traces_are_sent(tmp_path: Path):
    with Collector() as collector:
        environment = {
            "DEEPWORK_LOG_FORMAT": "json", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=tests",
        }  # fmt: skip
        with StdioServer(tmp_path, "--log-level", "info", environment=environment) as wire:
            call_tool(wire, "agent_register", {"traceparent": PARENT}, name=WORDS, runtime="codex")
            call_tool(wire, "agent_get", id=f"ag {WORDS}")
            # Log lines never reach stdout: `ask` parses every line there as JSON-RPC.
            call_tool(wire, "agent_list")
            call_tool(wire, "get_workflows")
        told = wire.errors.decode()

    lines = parse_lines(told)
    good, bad, *_, asynchronous = list_call_lines(lines)
    assert (good["tool"], good["outcome"]) == ("agent_register", "ok")
    assert {key: bad[key] for key in ("tool", "outcome", "code", "caller", "level", "logger")} == {
        "tool": "agent_get", "outcome": "error", "code": "AGENT_NOT_FOUND", "caller": "local",
        "level": "info", "logger": "deepwork.calls",
    }  # fmt: skip
    assert asynchronous["tool"] == "get_workflows"
    assert "code" not in good
    assert good["duration_ms"] > 0
    assert int(bad["request_id"]) == int(good["request_id"]) + 1
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in lines)
    assert WORDS not in told

    spans = collector.spans
    assert set(collector.paths) == {"/v1/traces"}
    assert spans["tools/call agent_register"]["gen_ai.tool.name"] == "agent_register"
    assert spans["tools/call agent_register"]["status"] != ERROR_STATUS
    assert spans["tools/call agent_get"]["error.type"] == "AGENT_NOT_FOUND"
    assert spans["tools/call agent_get"]["status"] == ERROR_STATUS
    assert WORDS not in str(spans)
    resource = collector.resources[0]
    assert (resource["service.name"], resource["deployment.environment"]) == ("deepwork", "tests")
    traces = {
        span.trace_id.hex()
        for request in collector.requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if span.name == "tools/call agent_register"
    }
    assert traces == {PARENT.split("-")[1]}, "the client's trace goes on here"


def test_an_unreachable_collector_delays_nothing_and_text_is_the_default_format(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but never listens
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        wire = StdioServer(
            tmp_path, "--log-level", "info", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        )
        with wire:
            assert call_tool(wire, "agent_list")["result"]["structuredContent"]["total"] == 0

    assert wire.process.returncode == 0
    assert "INFO deepwork.calls: tool=agent_list stack=[] ms=" in wire.errors.decode()


def test_over_http_lines_contain_the_session_and_no_token(tmp_path: Path):
    with HttpServer(tmp_path, "--log-format", "json", "--log-level", "info") as served:
        session = McpSession(served)
        session.call(7, "agent_list", {})
        told = served.token
        served.request("GET", f"/?token={told}")
        session.close()

    lines = parse_lines(served.read_log())
    [line] = list_call_lines(lines)
    assert line["caller"].startswith("session:")
    assert (line["request_id"], line["tool"]) == ("7", "agent_list")
    assert any("serves MCP at" in line["message"] for line in lines)
    assert told not in served.read_log()


def test_an_unknown_log_format_is_refused_by_name(tmp_path: Path):
    asked = [sys.executable, "-P", "-m", "deepwork", "serve", "--path", str(tmp_path)]
    done = subprocess.run(
        asked, env={"DEEPWORK_LOG_FORMAT": "xml"}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "DEEPWORK_LOG_FORMAT" in done.stderr
    assert "'text', 'json'" in done.stderr


class Sink:
    """A stream that records what is written, or fails."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.text, self.breaks = "", breaks

    def write(self, text: str) -> int:
        if self.breaks:
            raise BrokenPipeError
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def log_message(handler: logging.Handler, message: str, **more: Any) -> None:
    handler.handle(logging.makeLogRecord({"name": "x", "levelname": "ERROR", "msg": message, **more}))


def test_a_traceback_stays_in_its_line_and_shows_no_token():
    sink = Sink()
    handler = JsonHandler(sink)  # type: ignore[arg-type]
    handler.addFilter(TokenRedactionFilter("the-owners-token"))
    try:
        dict[str, str]()["the-owners-token\nsecond line"]
    except KeyError:
        log_message(handler, "failed", exc_info=sys.exc_info())

    [line] = parse_lines(sink.text)
    assert "KeyError" in line["exception"]
    assert "owners" not in sink.text


def test_a_token_that_json_escapes_is_hidden_too():
    token = 'the-"owners\\token'
    sink = Sink()
    handler = JsonHandler(sink)  # type: ignore[arg-type]
    handler.addFilter(TokenRedactionFilter(token))

    log_message(
        handler, "asked", facts={"url": f"/?token={token}", token: {"all": [token, 7, None, Path("/a")]}}
    )
    log_message(handler, f"asked with {token}")

    first, second = parse_lines(sink.text)
    assert "owners" not in sink.text
    assert first["dw_…"] == {"all": ["dw_…", 7, None, "/a"]}
    assert first["url"] == "/?token=dw_…"
    assert second["message"] == "asked with dw_…"


def test_text_written_to_stderr_becomes_log_lines():
    sink = Sink()
    stray = StderrToLog(JsonHandler(sink))  # type: ignore[arg-type]

    print("one\n\n two", file=stray, end=" halves\nthree")
    assert [line["message"] for line in parse_lines(sink.text)] == ["one", " two halves"]

    stray.write("\n")
    assert parse_lines(sink.text)[-1]["message"] == "three"


def test_a_closed_standard_error_causes_no_error(monkeypatch: pytest.MonkeyPatch):
    handler = JsonHandler(Sink(breaks=True))  # type: ignore[arg-type]
    stand_in = StderrToLog(handler)
    monkeypatch.setattr(sys, "stderr", stand_in)

    log_message(handler, "to nobody")
    print("to nobody", file=sys.stderr)

    assert sys.stderr is stand_in


def test_without_the_extra_one_warning_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    start_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})()

    [record] = caplog.records
    assert "pip install 'deepwork[otel]'" in record.getMessage()


@pytest.mark.parametrize(
    "environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"}]
)
def test_without_tracing_its_modules_are_not_imported(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    start_tracing(environment)()

    assert not caplog.records
