"""The tasks extension for the SDK's client: it declares the extension and polls the tasks that it gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import anyio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp_types import CallToolResult, Request, RequestParams, Result

PATIENCE_SECONDS = 100
EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}}
Status = Literal["working", "input_required", "completed", "cancelled", "failed"]


class CreatedTask(Result):
    """The result of a call that became a task."""

    result_type: Literal["task"]
    task_id: str
    status: Status
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int


class PolledTask(CreatedTask):
    """The result of `tasks/get`."""

    result_type: Literal["complete"]  # type: ignore[assignment]
    result: CallToolResult | None = None
    error: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class TaskExtension(ClientExtension):
    """Resolves tasks by polling; `on_created` may do something before."""

    identifier = EXTENSION

    def __init__(
        self, on_created: Callable[[CreatedTask, ClientSession], Awaitable[None]] | None = None
    ) -> None:
        self.created: list[CreatedTask] = []
        self.ended: list[PolledTask] = []
        self._on_created = on_created

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, task: CreatedTask, context: ClaimContext) -> CallToolResult:
        self.created.append(task)
        if self._on_created is not None:
            await self._on_created(task, context.session)
        found = await wait_for_task(context.session, task.task_id)
        self.ended.append(found)
        return found.result or CallToolResult(content=[], is_error=True)


async def get_task(session: ClientSession, task_id: str) -> PolledTask:
    return await session.send_request(GetTask(params=TaskParams(task_id=task_id)), PolledTask)


async def wait_for_task(session: ClientSession, task_id: str) -> PolledTask:
    """Poll a task until it has ended."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while True:
            found = await get_task(session, task_id)
            if found.status != "working":
                return found
            await anyio.sleep(0.05)


async def cancel_task(session: ClientSession, task_id: str) -> Result:
    return await session.send_request(CancelTask(params=TaskParams(task_id=task_id)), Result)
