"""Reads job.yml as it was committed: what it demands there, an agent that edits the file cannot take back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from deepwork.kernel.files.heads import Head
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_head
from deepwork.work.jobs.definitions.models import JOB_FILE, Job


class CommittedJob:
    """The job.yml of a job in the commit that HEAD names; read once, and only if something asks for it."""

    def __init__(self, git: Git, job: Job) -> None:
        self._git, self._job = git, job

    @cached_property
    def head(self) -> Head | None:
        """Where HEAD is; None without a commit."""
        return find_head(self._git)

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the file as data; empty if this key is nowhere in it, None if it is not committed.

        Its parts may be malformed.
        """
        if self._content is None or key.encode() not in self._content:
            return None if self._content is None else {}
        return self._data

    @cached_property
    def _path(self) -> str | None:
        top, folder = find_tree_root(self._git.root), self._job.folder.resolve()
        if top is None or not folder.is_relative_to(top.resolve()):
            return None
        return (folder.relative_to(top.resolve()) / JOB_FILE).as_posix()

    @cached_property
    def _content(self) -> bytes | None:
        if self.head is None or self._path is None:
            return None
        from deepwork.gates.checks.definitions import read_committed_file  # noqa: PLC0415 - imports much

        return read_committed_file(self._git, self.head.commit, self._path)

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        from deepwork.kernel.files.yaml import load_yaml  # noqa: PLC0415 - imports much

        text = (self._content or b"").decode("utf-8-sig", errors="replace")
        data = load_yaml(text, source=self._path or JOB_FILE).data
        return data if isinstance(data, dict) else {}


def list_mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none if the value is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
