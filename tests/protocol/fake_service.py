"""A service with one tool that is called `slow` and waits until the test lets it go on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deepwork.protocol.messages import JsonText, Request, RequestCancelled
from deepwork.protocol.service import ToolAnswer

PATIENCE_SECONDS = 100


class FakeService:
    """Offers `slow`, which reports progress, and nothing else."""

    name, version, instructions = "fake", "1", "Wait."

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.is_running = threading.Event()
        self.is_interrupted = threading.Event()

    def is_quick(self, request: Request) -> bool:
        return request.method != "tools/call"

    def observe(self, request: Request) -> AbstractContextManager[object]:
        return nullcontext()

    def list_tools(self, request: Request) -> JsonText:
        return JsonText("[]")

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        request.on_cancel(self._interrupt)
        request.report_progress(1, 2, "half")
        self.is_running.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        if self.is_interrupted.is_set():
            raise RequestCancelled
        if name == "broken":
            raise RuntimeError("a secret")
        return ToolAnswer("done")

    def _interrupt(self) -> None:
        self.is_interrupted.set()
        self.may_end.set()

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
