"""Answers why code exists: a line, a file, a commit or a range → commits → tasks → the chain behind them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwork.delivery.provenance.exports import ExportedCommit, remove_private
from deepwork.delivery.provenance.rules import CommitVerdict, Match, VerifiedCommit
from deepwork.delivery.provenance.verification import ProvenanceVerifier
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.paths import confine
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git
from deepwork.kernel.git.history import (
    HistoryCommit,
    find_commits,
    list_commits,
    read_shallow_boundary,
    resolve_range,
)
from deepwork.kernel.git.line_origins import LineOrigin, find_line_origins
from deepwork.kernel.git.patches import list_added_lines
from deepwork.kernel.git.refs import get_commit
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.provenance_store import list_running_tasks
from deepwork.views.overview.task_chains import build_chains
from deepwork.views.overview.task_lines import TaskLineFinder
from deepwork.views.overview.why_answers import CommitOrigin, LinkView, TaskChain, Why

MAX_COMMITS = 200
MAX_EXPORTED = 10_000
MAX_LINES = 20_000
MAX_FILE_BYTES = 10 * 2**20
_MAX_RUNNING = 20
_MAX_PROMPT = 2**20
_NOTHING_KNOWN = "No task of this store is known to have made this commit."
_MAY_BE_OLDER = "The history is cut off at this commit (a shallow clone), so its lines may be older."


class WhyService:
    """Explains code of one repository. Git runs between the transactions."""

    def __init__(
        self,
        database: Database,
        git: Git,
        verifier: ProvenanceVerifier,
        task_lines: TaskLineFinder,
        state_folder: Path,
        host: str,
    ) -> None:
        self._database, self._git, self._verifier = database, git, verifier
        self._task_lines = task_lines
        self._state_folder, self._host = state_folder, host

    def explain_lines(
        self, path: str, first: int = 1, last: int = MAX_LINES, commit: str | None = None
    ) -> Why:
        """Explain lines of a file: as it is in the working tree, or in a commit."""
        at = get_commit(self._git, commit) if commit else None
        name = _check_name(path) if at else self._locate(path)
        origins = find_line_origins(self._git, name, first, min(last, first + MAX_LINES - 1), at)
        lines = _group_lines(origins)
        hashes = [hash for hash in lines if hash is not None]
        found = find_commits(self._git, hashes[:MAX_COMMITS])
        answer = self._explain([found[hash] for hash in hashes[:MAX_COMMITS]], name, lines)
        where = name if (first, last) == (1, MAX_LINES) else f"{name}:{first}"
        more = {"question": where, "commits_total": len(hashes)}
        return answer.model_copy(more | self._describe_uncommitted(lines.get(None)))

    def explain_task_line(self, task_id: str, path: str, line: int, *, is_old: bool) -> Why:
        """Explain a line of a task's diff: the commit that it comes from, and the task if it changed it."""
        found = self._task_lines.find(task_id, _check_name(path), line, is_old=is_old)
        answer = (
            self.explain_lines(path, found.line, found.line, found.commit)
            if found.commit
            else Why(question="", commits=[], commits_total=0, uncommitted=[[line, line]], tasks=[])
        )
        more: dict[str, object] = {"question": f"{path}:{line}"}
        if found.is_change:
            certainty = "certain" if found.is_certain else "likely"
            chains = [each for each in answer.tasks if each.id != task_id]
            own = [each for each in answer.tasks if each.id == task_id] or self._build_chain(task_id)
            more |= {"changed_by": task_id, "changed_by_certainty": certainty, "tasks": [*own, *chains]}
        return answer.model_copy(more)

    def _build_chain(self, task_id: str) -> list[TaskChain]:
        with self._database.reading() as tx:
            return build_chains(tx, {task_id}, (), self._find_transcript)

    def explain_commits(self, range_text: str) -> Why:
        """Explain one commit, or each commit of a range A..B, the newest first."""
        commits = list_commits(self._git, resolve_range(self._git, range_text), MAX_COMMITS)
        return self._explain(commits, None, {}).model_copy({"question": range_text})

    def export_commits(self, range_text: str, *, includes_prompts: bool = False) -> list[ExportedCommit]:
        """Describe the commits of a range that tasks made, for other programs, the newest first.

        What people and agents wrote to each other is left out, unless prompts are included.
        """
        commits = list_commits(self._git, resolve_range(self._git, range_text), MAX_EXPORTED)
        answer = self._explain(commits, None, {}).model_dump()
        origins = {origin["commit"]: origin["links"] for origin in answer["commits"] if origin["links"]}
        tasks = {task["id"]: task for task in answer["tasks"]}
        made = [commit for commit in commits if commit.hash in origins]
        large = self._git.at(self._git.root, max_output=MAX_LISTING_BYTES)
        added = list_added_lines(large.run, [commit.change for commit in made if commit.change])
        return [
            self._export(
                commit,
                origins[commit.hash],
                tasks,
                added.get(commit.change or ("", ""), {}),
                includes_prompts,
            )
            for commit in made
        ]

    def _export(
        self,
        commit: HistoryCommit,
        links: Sequence[Mapping[str, Any]],
        tasks: Mapping[str, Mapping[str, Any]],
        added: Mapping[str, Sequence[tuple[int, int]]],
        includes_prompts: bool,
    ) -> ExportedCommit:
        chains = [tasks[id] for id in dict.fromkeys(link["task_id"] for link in links)]
        shown = chains if includes_prompts else [remove_private(chain) for chain in chains]
        prompts = self._read_prompts(chains) if includes_prompts else []
        return ExportedCommit(commit.hash, commit.tree, commit.committed_at, links, shown, added, prompts)

    def _read_prompts(self, chains: Sequence[Mapping[str, Any]]) -> list[str]:
        """Read what the attempts that made a commit were given, as far as it is on this machine."""
        files = [
            Path(attempt["transcript"]).with_name("prompt")
            for chain in chains
            for attempt in chain["attempts"]
            if attempt["made_it"] and "transcript" in attempt
        ]
        return [file.read_text(errors="replace")[:_MAX_PROMPT] for file in files if file.is_file()]

    def _locate(self, path: str) -> str:
        """Return the name of a file of the working tree, relative to its root."""
        file = confine(self._git.root, path, kind="file")
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(
                f"The file {path[:200]!r} is larger than {MAX_FILE_BYTES >> 20} MiB.",
                code=Code.TOO_LARGE,
                suggestion="Ask about the commit that changed it.",
            )
        return os.fspath(file.relative_to(os.path.realpath(self._git.root)))

    def _explain(
        self, commits: Sequence[HistoryCommit], name: str | None, lines: Mapping[str | None, list[LineOrigin]]
    ) -> Why:
        verified = self._verifier.verify_commits(commits, is_required=True)
        cut_off = read_shallow_boundary(self._git) if lines else frozenset()
        origins = [
            _build_origin(commit, found, name, lines.get(commit.hash), is_cut_off=commit.hash in cut_off)
            for commit, found in zip(commits, verified, strict=True)
        ]
        matches = [match for found in verified for match in found.matches]
        makers = {(match.task_id, match.agent_id) for match in matches}
        with self._database.reading() as tx:
            tasks = build_chains(tx, {match.task_id for match in matches}, makers, self._find_transcript)
        return Why(question="", commits=origins, commits_total=len(origins), tasks=tasks)

    def _describe_uncommitted(self, lines: Sequence[LineOrigin] | None) -> dict[str, object]:
        if not lines:
            return {}
        with self._database.reading() as tx:
            running = list_running_tasks(tx, self._host, str(self._git.root), _MAX_RUNNING)
        return {"uncommitted": _to_ranges(lines), "running_tasks": running or None}

    def _find_transcript(self, attempt_id: str, start: int, host: str) -> str | None:
        """Return the file with what an attempt wrote, if it is on this machine."""
        path = AttemptFiles.locate(self._state_folder, attempt_id, start).stdout
        return os.fspath(path) if host == self._host and path.is_file() else None


def _build_origin(
    commit: HistoryCommit,
    found: VerifiedCommit,
    name: str | None,
    lines: Sequence[LineOrigin] | None,
    *,
    is_cut_off: bool,
) -> CommitOrigin:
    earlier = lines[0].path if lines and lines[0].path != name else None
    notes = [_MAY_BE_OLDER] if is_cut_off else []
    notes += [] if found.matches else [_NOTHING_KNOWN]
    problems = list(found.problems) if found.verdict is CommitVerdict.FORGED else []
    return CommitOrigin(
        commit=commit.hash,
        subject=commit.subject[:200],
        author=commit.author[:200],
        committed_at=format_timestamp(commit.committed_at * 1000),
        lines=_to_ranges(lines) if lines else None,
        path=earlier,
        links=[_build_link(match) for match in found.matches],
        problems=problems or None,
        note=" ".join(notes) or None,
    )


def _build_link(match: Match) -> LinkView:
    return LinkView.of(match, certainty="likely" if match.is_likely else "certain")


def _group_lines(origins: Iterable[LineOrigin]) -> dict[str | None, list[LineOrigin]]:
    found: dict[str | None, list[LineOrigin]] = {}
    for origin in sorted(origins, key=lambda each: each.first):
        found.setdefault(origin.commit, []).append(origin)
    return found


def _to_ranges(lines: Sequence[LineOrigin]) -> list[list[int]]:
    return [[each.first, each.last] for each in lines]


def _check_name(path: str) -> str:
    """Return the name of a file in a commit: relative, and inside the repository."""
    parts = path.split("/")
    if not path or "\0" in path or path.startswith("/") or ".." in parts or len(path) > 4096:
        raise InvalidInput(
            f"The path {path[:200]!r} is not the name of a file in this repository.",
            code=Code.PATH_OUTSIDE_PROJECT,
            suggestion="Name the file relative to the root of the repository.",
        )
    return path
