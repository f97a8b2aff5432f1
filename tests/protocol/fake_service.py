"""A service with one tool that is called `slow` and waits until the test lets it go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deepwork.kernel.protocol.handler import ToolAnswer
from deepwork.kernel.protocol.messages import JsonText, Request

PATIENCE_SECONDS = 100


class FakeService:
    """Offers `slow`, which reports progress, and nothing else."""

    name, version, instructions = "fake", "1", "Wait."
    offers_tasks = True

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.is_running = threading.Event()
        self.is_interrupted = threading.Event()

    def is_quick(self, request: Request) -> bool:
        return request.method != "tools/call"

    def is_long(self, request: Request) -> bool:
        return False

    def may_become_task(self, request: Request) -> bool:
        return True

    def get_owner(self, request: Request) -> Any:
        return request.caller

    def observe(self, request: Request) -> AbstractContextManager[object]:
        return nullcontext()

    def list_tools(self, request: Request) -> JsonText:
        return JsonText("[]")

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        request.report_progress(1, 2, "half")
        self.is_running.set()
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not self.may_end.wait(0.01):
            if request.is_cancelled:
                self.is_interrupted.set()
                break
            assert time.monotonic() < give_up
        if name == "broken":
            raise RuntimeError("a secret")
        return ToolAnswer("done")

    def list_prompts(self) -> list[dict[str, Any]]:
        return []

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        raise NotImplementedError

    def list_resources(self) -> list[dict[str, Any]]:
        return []

    def list_templates(self) -> list[dict[str, Any]]:
        return []

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        raise NotImplementedError

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        raise NotImplementedError
