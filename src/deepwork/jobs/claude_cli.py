"""The Claude command line as a reviewer: a prompt in, a verdict out, and nothing left running."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwork.errors import ReviewerError
from deepwork.programs import Bounds, NotWanted, OutputTooLarge, run_bounded

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
        """The structured answer; whatever the reviewer does wrong is one error that says so."""
        seconds = timeout or self.timeout
        try:
            finished = run_bounded(
                self._command(system_prompt, json_schema),
                cwd=cwd,
                env=self._environment,
                input=prompt.encode(),  # by standard input: an argument may not be longer than 128 KiB
                bounds=Bounds(seconds, MAX_ANSWER),
                is_wanted=is_wanted,
            )
        except FileNotFoundError:
            raise _failed(
                f"{self._program[0]}: command not found", "Install it, or serve without it."
            ) from None
        except TimeoutError:  # before OSError, of which it is one
            raise _failed(f"it timed out after {seconds:g} seconds") from None
        except OSError as error:
            raise _failed(f"{self._program[0]} cannot be started: {error.strerror}") from error
        except OutputTooLarge:
            raise _failed(f"it wrote more than {MAX_ANSWER} bytes") from None
        except NotWanted:
            raise _failed("the call was cancelled") from None
        if finished.code != 0:
            raise _failed(f"exit code {finished.code}: {_quoted(finished.stderr)}")
        return _structured(finished.stdout)

    def _command(self, system_prompt: str, json_schema: Mapping[str, Any]) -> list[str]:
        return [
            *self._program, "--print", "--output-format", "json", "--system-prompt", system_prompt,
            "--json-schema", json.dumps(json_schema), "-p", "--",
        ]  # fmt: skip


def _structured(stdout: bytes) -> dict[str, Any]:
    try:
        wrapper = json.loads(stdout)
    except (ValueError, RecursionError):
        raise _failed(f"Failed to parse its answer: {_quoted(stdout)}") from None
    if not isinstance(wrapper, dict):
        raise _failed(f"Failed to parse its answer, which is no object: {_quoted(stdout)}")
    if wrapper.get("is_error"):
        raise _failed(f"it returned error: {_quoted(str(wrapper.get('result')).encode())}")
    answer = wrapper.get("structured_output")
    if not isinstance(answer, dict):
        raise _failed(f"its answer is missing 'structured_output': {_quoted(stdout)}")
    return answer


def _failed(why: str, suggestion: str | None = None) -> ReviewerError:
    return ReviewerError(
        f"The reviewer failed: {why}.",
        recoverable=True,
        suggestion=suggestion
        or "This attempt does not count. Call finished_step again, or with quality_review_override_reason.",
    )


def _quoted(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[:MAX_QUOTED] or "(nothing)"
