"""`/metrics` of a real server: access and content."""

from __future__ import annotations

from pathlib import Path

from deepwork.edge.server.application import Application
from deepwork.edge.server.registry import select_tools
from deepwork.kernel.config import load_settings
from http_tests.http_server import HttpServer, McpSession
from observability.prometheus_reader import get_value, parse_metrics


def test_a_server_serves_metrics_to_tokens_that_may_read(tmp_path: Path):
    with HttpServer(tmp_path, "--rate-limit", "3") as served:
        assert served.get("/metrics").status == 401
        session = McpSession(served)
        assert session.call(1, "agent_register", {"name": "Ada", "runtime": "codex"})["id"]
        assert session.call(2, "agent_get", {"id": "ag_no"})["code"] == "AGENT_NOT_FOUND"
        session.call(3, "no_such_tool_at_all", {})
        made = session.call(4, "agent_list", {})
        # More than a burst; a slow machine is allowed more requests before the limit.
        while (refused := served.get("/api/v1/me", **served.bearer).status) == 200:
            pass
        assert refused == 429
        found = parse_metrics(_scrape(served))

    assert made["total"] == 1
    assert get_value(found, "deepwork_tool_calls_total", tool="agent_register") == 1
    assert get_value(found, "deepwork_tool_errors_total", tool="agent_get", code="AGENT_NOT_FOUND") == 1
    assert get_value(found, "deepwork_tool_duration_seconds", "_count", tool="agent_list") == 1
    assert get_value(found, "deepwork_live_agents") == 1
    assert get_value(found, "deepwork_event_last_seq") >= 1
    assert get_value(found, "deepwork_http_refused_requests_total", status="401") == 1
    assert get_value(found, "deepwork_http_refused_requests_total", status="429") >= 1
    assert 10**7 < get_value(found, "process_resident_memory_bytes") < 2 * 10**9
    app = Application(load_settings(tmp_path, environment={}))
    labels = {dict(labels)["tool"] for _, labels in found["deepwork_tool_calls_total"].samples}
    assert labels <= set(select_tools(app.registry, app.settings)), "only tools that there are"
    app.close()


def _scrape(served: HttpServer) -> str:
    """Retry until it succeeds, since the server may still answer 429 for a moment."""
    while (answer := served.request("GET", "/metrics", served.bearer)).status == 429:
        pass
    assert answer.status == 200, answer
    return answer.body.decode()
