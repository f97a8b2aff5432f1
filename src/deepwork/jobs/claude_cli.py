"""Runs the Claude command line as a reviewer and leaves no process behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwork.errors import ReviewerError
from deepwork.programs import OutputTooLarge, ProgramCancelled, ProgramLimits, run_supervised

MAX_ANSWER = 10 * 1024 * 1024
MAX_QUOTED = 500


class ClaudeCLI:
    """Runs `claude` once for each review."""

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
        is_wanted: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Run the reviewer and return its structured answer; every failure becomes a ReviewerError."""
        seconds = timeout or self.timeout
        try:
            finished = run_supervised(
                self._build_command(system_prompt, json_schema),
                cwd=cwd,
                env=self._environment,
                input=prompt.encode(),  # through stdin: Linux limits an argument to 128 KiB
                bounds=ProgramLimits(seconds, MAX_ANSWER),
                should_continue=is_wanted,
            )
        except FileNotFoundError:
            raise _build_error(
                f"{self._program[0]}: command not found", "Install it, or serve without `external_runner`."
            ) from None
        except TimeoutError:  # before OSError, its base class
            raise _build_error(f"it timed out after {seconds:g} seconds") from None
        except OSError as error:
            raise _build_error(f"{self._program[0]} cannot be started: {error.strerror}") from error
        except OutputTooLarge:
            raise _build_error(f"it wrote more than {MAX_ANSWER} bytes") from None
        except ProgramCancelled:
            raise _build_error("the call was cancelled") from None
        if finished.code != 0:
            raise _build_error(f"exit code {finished.code}: {_quote(finished.stderr)}")
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
        raise _build_error(f"Failed to parse its answer: {_quote(stdout)}") from None
    if not isinstance(wrapper, dict):
        raise _build_error(f"Failed to parse its answer, which is not an object: {_quote(stdout)}")
    if wrapper.get("is_error"):
        raise _build_error(f"it returned error: {_quote(str(wrapper.get('result')).encode())}")
    answer = wrapper.get("structured_output")
    if not isinstance(answer, dict):
        raise _build_error(f"its answer is missing 'structured_output': {_quote(stdout)}")
    return answer


def _build_error(why: str, suggestion: str | None = None) -> ReviewerError:
    return ReviewerError(
        f"The reviewer failed: {why}.",
        recoverable=True,
        suggestion=suggestion
        or "This attempt does not count. Call {tool:finished_step} again, or pass "
        "quality_review_override_reason.",
    )


def _quote(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[:MAX_QUOTED] or "(nothing)"
