"""Reads job.yml as it was committed: what it demands there, an agent that edits the file cannot take back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import DefinitionError, InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import Head, find_tree_root
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.exact_files import list_committed_folders, read_committed_file
from deepwork.kernel.git.refs import find_head
from deepwork.work.jobs.definitions.models import JOB_FILE, Job

GATES = ("checks", "approval", "budget")
"""The keys of a step that say what it must pass, or what it may use up."""


class CommittedJob:
    """The job.yml of a job in the commit that HEAD names; read once, and only if something asks for it."""

    def __init__(self, git: Git, job: Job) -> None:
        self._git, self._job = git, job

    @cached_property
    def head(self) -> Head | None:
        """Where HEAD is; None without a commit."""
        return find_head(self._git)

    def is_lost(self) -> bool:
        """Whether HEAD names no commit although the repository has branches: one may have the file."""
        if self.head is not None or find_tree_root(self._git.root) is None:
            return False
        return bool(self._git.run("for-each-ref", "--count=1", "refs/heads"))

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the file as data; empty if this key is nowhere in it, None if it is not committed.

        Its parts may be malformed.
        """
        if self._content is None or key.encode() not in self._content:
            return None if self._content is None else {}
        return self._data

    def find_entries(self, workflow_name: str) -> list[list[str]] | None:
        """Return the steps of a workflow in the order of the file; None if the file has no such workflow."""
        for workflow in list_mappings(self._data.get("workflows")):
            entries = workflow.get("steps")
            if workflow.get("name") == workflow_name and isinstance(entries, list):
                listed = (entry if isinstance(entry, list) else [entry] for entry in entries)
                return [list(map(str, entry)) for entry in listed]
        return None

    def list_gated_steps(self) -> set[str]:
        """List the steps that have to pass something, or may use up only so much."""
        if not any(self.find(key) for key in GATES):
            return set()
        steps = list_mappings(self._data.get("steps"))
        return {
            str(step.get("id")) for step in steps if any(step.get(key) not in (None, []) for key in GATES)
        }

    @cached_property
    def _path(self) -> str:
        return self._found[0]

    @cached_property
    def _content(self) -> bytes | None:
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[str, bytes | None]:
        """The first place that has the file: a job is known by its name, wherever its folder is now."""
        for path in self._list_places() if self.head else ():
            if (content := self._read(path)) is not None:
                return path, content
        return JOB_FILE, None

    def _list_places(self) -> Iterator[str]:
        """List where the commit may have the file, the likely place first."""
        top, project = find_tree_root(self._git.root), self._git.root.resolve()
        if top is None or not project.is_relative_to(top.resolve()):
            return
        own, folder = project.relative_to(top.resolve()) / STATE_FOLDER / "jobs", self._job.folder
        yield (own / self._job.name / JOB_FILE).as_posix()
        yield from self._list_namesakes(own.as_posix())
        if folder.resolve().is_relative_to(top.resolve()):
            yield (folder.resolve().relative_to(top.resolve()) / JOB_FILE).as_posix()

    def _list_namesakes(self, own: str) -> Iterator[str]:
        """List the jobs of the project that have this name in a folder of another one."""
        for folder in list_committed_folders(self._git, self.head.commit, own) if self.head else ():
            path = f"{folder}/{JOB_FILE}"
            content = self._read(path)
            if content is not None and _read_name(content, path) == self._job.name:
                yield path

    def _read(self, path: str) -> bytes | None:
        return read_committed_file(self._git, self.head.commit, path) if self.head else None

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        return _parse(self._content or b"", self._path)


def _parse(content: bytes, path: str) -> Mapping[str, Any]:
    from deepwork.kernel.files.yaml import load_yaml  # noqa: PLC0415 - imports much

    data = load_yaml(content.decode("utf-8-sig", errors="replace"), source=path).data
    return data if isinstance(data, dict) else {}


def _read_name(content: bytes, path: str) -> object:
    """Return the name of a committed job; None for a file that is no job's."""
    try:
        return _parse(content, path).get("name")
    except DefinitionError:
        return None


def require_commit(at_head: CommittedJob, had_gates: Callable[[], bool]) -> None:
    """Raise if HEAD names no commit and the job may have gates in one; `had_gates`: an earlier session did.

    Without a commit the file alone would say what has to be passed, and an agent can edit that.
    """
    if at_head.is_lost() or (at_head.head is None and had_gates()):
        raise NotAllowed(
            "What the steps of a job have to pass is read from a commit, and HEAD names none now.",
            suggestion="Check out the branch that has the job, or commit job.yml first.",
        )


def require_same_gates(at_head: CommittedJob, workflow_name: str, entries: Sequence[Sequence[str]]) -> None:
    """Raise if the workflow lacks a step that has gates, or does before it what the commit does after it."""
    gated = at_head.list_gated_steps()
    if not gated:
        return
    before = at_head.find_entries(workflow_name)
    if before is None:
        raise _build_changed_error(f"Workflow {workflow_name!r} is missing in the committed job.yml.")
    for step in sorted(gated & _join(before)):
        if step not in _join(entries):
            raise _build_changed_error(f"Step {step!r} is missing in the workflow {workflow_name!r}.")
        if early := _list_until(step, entries) - _list_until(step, before):
            raise _build_changed_error(f"Step {min(early)!r} has to come after {step!r}.")


def _build_changed_error(message: str) -> InvalidInput:
    return InvalidInput(
        f"{message} Steps of the committed job.yml have checks, approvals or budgets.",
        suggestion="Restore it, or commit the change of job.yml first.",
    )


def _join(entries: Sequence[Sequence[str]]) -> set[str]:
    return {step for entry in entries for step in entry}


def _list_until(step: str, entries: Sequence[Sequence[str]]) -> set[str]:
    """List the steps that need not wait for this one."""
    last = next(index for index, entry in enumerate(entries) if step in entry)
    return _join(entries[: last + 1])


def list_mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none if the value is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
