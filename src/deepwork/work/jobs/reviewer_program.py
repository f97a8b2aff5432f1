"""Runs programs as external reviewers, such as `claude`, within limits, and leaves no process behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from deepwork.kernel.errors import ReviewerError
from deepwork.kernel.programs import (
    OutputTooLarge,
    ProgramCancelled,
    ProgramLimits,
    ProgramResult,
    run_supervised,
)

MAX_ANSWER = 10 * 1024 * 1024
MAX_QUOTED = 500

IsWanted = Callable[[], bool]


class Reviewer(Protocol):
    """An external reviewer: one program that is started for each review."""

    @property
    def name(self) -> str:
        """The name under which its rounds are recorded."""

    @property
    def timeout(self) -> float:
        """How many seconds a review may take."""

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
        """Run the reviewer and return its answer; every failure becomes a ReviewerError."""


def run_reviewer(
    argv: Sequence[str],
    prompt: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    is_wanted: IsWanted | None,
) -> ProgramResult:
    """Run a reviewer with the prompt on its standard input; every failure to run becomes a ReviewerError."""
    try:
        return run_supervised(
            argv,
            cwd=cwd,
            env=env,
            input=prompt.encode(),  # through stdin: Linux limits an argument to 128 KiB
            bounds=ProgramLimits(seconds, MAX_ANSWER),
            should_continue=is_wanted,
        )
    except FileNotFoundError:
        suggestion = "Install it, or serve without `external_runner`."
        raise build_failure(f"{argv[0]}: command not found", suggestion) from None
    except TimeoutError:  # before OSError, its base class
        raise build_failure(f"it timed out after {seconds:g} seconds") from None
    except OSError as error:
        raise build_failure(f"{argv[0]} cannot be started: {error.strerror}") from error
    except OutputTooLarge:
        raise build_failure(f"it wrote more than {MAX_ANSWER} bytes") from None
    except ProgramCancelled:
        raise build_failure("the call was cancelled") from None


def build_failure(why: str, suggestion: str | None = None) -> ReviewerError:
    """Build the error of a reviewer that gave no verdict."""
    return ReviewerError(
        f"The reviewer failed: {why}.",
        recoverable=True,
        suggestion=suggestion
        or "This attempt does not count. Call {tool:finished_step} again, or pass "
        "quality_review_override_reason.",
    )


def quote_output(output: bytes) -> str:
    """Return the beginning of what a reviewer wrote."""
    return output.decode("utf-8", "replace").strip()[:MAX_QUOTED] or "(nothing)"


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
