"""The four tools of the public benchmark, for both servers, and what makes their conditions equal."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

UVICORN: dict[str, Any] = {"log_level": "error", "access_log": False, "timeout_keep_alive": 60}
"""Otherwise as it is installed: with httptools and uvloop, if they are there."""


def fibonacci(n: int) -> int:
    """Recursively, to cost time."""
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def answer_fibonacci(n: int) -> dict[str, Any]:
    return {"input": n, "result": fibonacci(n)}


def upper(value: Any) -> Any:
    """Return the value with every text in capitals, at any depth."""
    match value:
        case str():
            return value.upper()
        case list():
            return [upper(each) for each in value]
        case dict():
            return {key: upper(each) for key, each in value.items()}
    return value


def answer_json(data: dict[str, Any]) -> dict[str, Any]:
    return {"original_keys": list(data), "transformed_data": upper(data)}


def answer_fetch(endpoint: str, status: int, milliseconds: int) -> dict[str, Any]:
    return {"url": endpoint, "status_code": status, "response_time_ms": milliseconds}


def answer_query(query: str, delay_ms: int) -> dict[str, Any]:
    return {"query": query, "delay_ms": delay_ms, "timestamp": datetime.now(UTC).isoformat()}


def use_one_core() -> None:
    """Keep this process on one core, where the system allows it; the load comes from another one."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
