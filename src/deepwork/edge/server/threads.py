"""Calls tools from asynchronous servers, in worker threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import anyio.to_thread

from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import OperationSpec
from deepwork.kernel.call import Call
from deepwork.kernel.database.transaction import Database

MAX_LONG_CALLS = 64
# A separate pool, because these calls may wait minutes for a reviewer or for a session lock.
_threads = ThreadPoolExecutor(MAX_LONG_CALLS, thread_name_prefix="tool")


async def invoke_in_thread(
    database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call
) -> Any:
    """Call a tool in a thread, where it runs to its end even if the client cancels the call."""
    if spec.may_take_long(given):
        return await _invoke_long_running(database, spec, given, call)
    return await anyio.to_thread.run_sync(invoke, database, spec, given, call)


async def _invoke_long_running(
    database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call
) -> Any:
    """Call the tool; cancelling makes `Call.is_wanted` return False, so that it stops early."""
    cancelled = threading.Event()
    call = replace(call, is_wanted=lambda: not cancelled.is_set())
    run = copy_context().run
    working = asyncio.get_running_loop().run_in_executor(_threads, run, invoke, database, spec, given, call)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cancelled.set()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({working})
        raise
