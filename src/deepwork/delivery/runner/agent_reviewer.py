"""Lets an agent of any vendor review the outputs of a step: its last message is the verdict, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from deepwork.delivery.runner.adapters import Launch, LaunchRequest, get_adapter
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile, build_agent_environment
from deepwork.delivery.runner.stream_state import StreamState, apply
from deepwork.kernel.errors import DeepworkError, ReviewerError
from deepwork.kernel.files.private import to_storage_error
from deepwork.kernel.programs import ProgramResult
from deepwork.kernel.values import copy_with
from deepwork.work.jobs.reviewer_program import IsWanted, build_failure, quote_output, run_reviewer

MAX_VERDICT: Final = 12_000
"""Characters that a verdict may have; the adapters keep a little more of a message."""
_STDERR_BYTES = 8_000


class AgentReviewer:
    """Starts an agent once for each review."""

    def __init__(self, name: str, timeout: float, get_profile: Callable[[str], AgentProfile]) -> None:
        self.name, self.timeout, self._get_profile = name, timeout, get_profile

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
        """Run the reviewer and return its verdict; every failure becomes a ReviewerError."""
        question = build_question(prompt, system_prompt, json_schema)
        try:
            profile: AgentProfile = copy_with(self._get_profile(self.name), allow=())
            with TemporaryDirectory(prefix="deepwork-review-") as folder:
                launch = _prepare(profile, cwd, Path(folder), question)
                environment = {**build_agent_environment(profile, os.environ), **launch.env}
                seconds = timeout or self.timeout
                finished = run_reviewer(
                    launch.argv, question, cwd=cwd, env=environment, seconds=seconds, is_wanted=is_wanted
                )
        except ReviewerError:
            raise
        except DeepworkError as error:  # such as a profile that does not exist
            raise build_failure(error.message.removesuffix("."), error.suggestion) from error
        return _read_verdict(profile, finished, json_schema["required"])


def build_question(prompt: str, system_prompt: str, json_schema: Mapping[str, Any]) -> str:
    """Build the prompt of a reviewer that knows no schemas for its answer."""
    return (
        f"{system_prompt}\n\nChange no file. Your last message must be nothing but that JSON object, of at "
        f"most {MAX_VERDICT} characters. The schema:\n\n{json.dumps(json_schema)}\n\n{prompt}"
    )


def _prepare(profile: AgentProfile, tree: Path, folder: Path, question: str) -> Launch:
    request = LaunchRequest(
        profile=profile, tree=tree, prompt_file=folder / "prompt", folder=folder, is_review=True
    )
    launch = get_adapter(profile.kind).build_launch(request)
    try:
        for path, content in {request.prompt_file: question, **launch.files}.items():
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise to_storage_error("write", folder, error) from error
    return launch


# The verdict


def _read_verdict(profile: AgentProfile, finished: ProgramResult, required: Sequence[str]) -> dict[str, Any]:
    state = read_output(profile, finished)
    if state.limit or state.transient or (state.ended and state.ended.is_error) or finished.code != 0:
        raise build_failure(_describe_failure(state, finished))
    texts = [state.last_message]
    if profile.kind == COMMAND_KIND:  # it may write the object on several lines
        texts.insert(0, finished.stdout.decode("utf-8", "replace"))
    verdict = next((found for text in texts if (found := find_object(text, required)) is not None), None)
    if verdict is None:
        shown = quote_output((state.last_message or finished.stderr.decode("utf-8", "replace")).encode())
        raise build_failure(f"its last message is not a JSON object with {', '.join(required)}: {shown}")
    return verdict


def read_output(profile: AgentProfile, finished: ProgramResult) -> StreamState:
    """Return what the whole output of an agent says."""
    adapter, state = get_adapter(profile.kind), StreamState()
    for line in finished.stdout.decode("utf-8", "replace").splitlines():
        state = apply(state, adapter.read_line(line))
    tail = finished.stderr[-_STDERR_BYTES:].decode("utf-8", "replace")
    return adapter.finish(state, finished.code, tail)


def find_object(text: str, required: Iterable[str]) -> dict[str, Any] | None:
    """Return the JSON object that a text consists of, with words or a code fence around it or without.

    Not just any object in it: that of one criterion, in a verdict that was cut, would pass for the whole.
    """
    begin, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[begin : end + 1]) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.keys() >= {*required} else None


def _describe_failure(state: StreamState, finished: ProgramResult) -> str:
    said = state.limit.message if state.limit else state.transient.message if state.transient else ""
    if not said and state.ended:
        said = state.ended.text or state.ended.reason
    shown = quote_output(said.encode() or finished.stderr)
    return f"exit code {finished.code}: {shown}" if finished.code else shown.removesuffix(".")
