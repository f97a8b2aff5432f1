"""The four tools on FastMCP, as its users write them, in its fastest settings: stateless, and answers as JSON."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

os.environ["FASTMCP_ENV_FILE"] = os.devnull
os.environ["FASTMCP_LOG_ENABLED"] = "false"

import httpx2
from benchmarks.four_tools.tools import (
    UVICORN,
    answer_fetch,
    answer_fibonacci,
    answer_json,
    answer_query,
    use_one_core,
)
from fastmcp import FastMCP

mcp: FastMCP = FastMCP("four tools")
client = httpx2.AsyncClient(timeout=10)


@mcp.tool
async def calculate_fibonacci(n: int) -> dict[str, Any]:
    """Calculate a Fibonacci number recursively."""
    return answer_fibonacci(n)


@mcp.tool
async def fetch_external_data(endpoint: str) -> dict[str, Any]:
    """Fetch from an HTTP interface; one client keeps its connections."""
    began = time.perf_counter()
    answer = await client.get(endpoint)
    return answer_fetch(endpoint, answer.status_code, int((time.perf_counter() - began) * 1000))


@mcp.tool
async def process_json_data(data: dict[str, Any]) -> dict[str, Any]:
    """Turn every text of an object into capitals."""
    return answer_json(data)


@mcp.tool
async def simulate_database_query(query: str, delay_ms: int = 0) -> dict[str, Any]:
    """Wait as long as a query would take."""
    await asyncio.sleep(delay_ms / 1000)
    return answer_query(query, delay_ms)


if __name__ == "__main__":
    use_one_core()
    mcp.run(
        "http",
        show_banner=False,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        json_response=True,
        stateless_http=True,
        uvicorn_config=UVICORN,
    )
