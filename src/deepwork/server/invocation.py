"""Calling a tool: the same for every front door, with or without MCP."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from deepwork.database.call import Call, calling
from deepwork.database.idempotency import once
from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError
from deepwork.server.registry import ToolSpec

log = logging.getLogger("deepwork")


def invoke(database: Database, spec: ToolSpec, given: Mapping[str, Any], call: Call) -> Any:
    """The tool's answer as plain JSON values; under a key, the first answer again."""

    def work() -> Any:
        return plain(spec.method(**arguments))

    with calling(call):
        arguments = spec.arguments(given)
        if call.key is None or spec.read_only:
            return work()
        return once(database, call, given, work)


async def invoke_async(spec: ToolSpec, given: Mapping[str, Any], call: Call) -> Any:
    """As `invoke`, for a tool that is asynchronous: such a tool sees to its own keys and threads."""
    with calling(call):
        return plain(await spec.method(**spec.arguments(given)))


def plain(answer: Any) -> Any:
    """An answer as JSON values."""
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    if isinstance(answer, list | tuple):
        return [plain(item) for item in answer]
    return answer


def spoken(error: Exception, doing: str) -> dict[str, str | bool]:
    """An error as a caller sees it; of our own faults only a number that finds them in the log."""
    if isinstance(error, DeepworkError):
        return error.as_dict()
    error_id = secrets.token_hex(4)
    log.error("%s failed (error %s)", doing, error_id, exc_info=error)
    return {
        "code": Code.INTERNAL_ERROR.value,
        "message": f"{doing} failed inside deepwork; the server's log has it as error {error_id}.",
        "recoverable": False,
        "suggestion": "Report this with the log lines of that error; other calls go on working.",
        "error_id": error_id,
    }
