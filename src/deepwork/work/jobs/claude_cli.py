"""Runs the Claude command line as a reviewer and leaves no process behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwork.work.jobs.reviewer_program import IsWanted, build_failure, quote_output, run_reviewer


class ClaudeCLI:
    """Runs `claude` once for each review."""

    name = "claude"

    def __init__(
        self, timeout: float = 120, *, environment: Mapping[str, str], program: Sequence[str] = ("claude",)
    ) -> None:
        self.timeout = timeout
        self._environment = environment
        self._program = tuple(program)

    def run(
        self,
        prompt: str,
        system_prompt: str,
        json_schema: Mapping[str, Any],
        *,
        cwd: Path,
        timeout: float | None = None,
        is_wanted: IsWanted | None = None,
    ) -> dict[str, Any]:
        """Run the reviewer and return its structured answer; every failure becomes a ReviewerError."""
        finished = run_reviewer(
            self._build_command(system_prompt, json_schema),
            prompt,
            cwd=cwd,
            env=self._environment,
            seconds=timeout or self.timeout,
            is_wanted=is_wanted,
        )
        if finished.code != 0:
            raise build_failure(f"exit code {finished.code}: {quote_output(finished.stderr)}")
        return _parse_answer(finished.stdout)

    def _build_command(self, system_prompt: str, json_schema: Mapping[str, Any]) -> list[str]:
        return [
            *self._program,
            "--print",
            "--output-format",
            "json",
            "--system-prompt",
            system_prompt,
            "--json-schema",
            json.dumps(json_schema),
            "-p",
            "--",
        ]


def _parse_answer(stdout: bytes) -> dict[str, Any]:
    try:
        wrapper = json.loads(stdout)
    except (ValueError, RecursionError):
        raise build_failure(f"Failed to parse its answer: {quote_output(stdout)}") from None
    if not isinstance(wrapper, dict):
        raise build_failure(f"Failed to parse its answer, which is not an object: {quote_output(stdout)}")
    if wrapper.get("is_error"):
        raise build_failure(f"it returned error: {quote_output(str(wrapper.get('result')).encode())}")
    answer = wrapper.get("structured_output")
    if not isinstance(answer, dict):
        raise build_failure(f"its answer is missing 'structured_output': {quote_output(stdout)}")
    return answer
