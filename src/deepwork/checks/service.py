"""Proves that checks pass, or says why work does not count as done yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepwork.call import current_call
from deepwork.checks.definitions import CheckDefinitions
from deepwork.checks.evidence import build_entry, describe_failure, render_output
from deepwork.checks.guarded_changes import (
    add_guarded_proofs,
    build_guarded_error,
    describe_changes,
    find_approval,
    read_diffs,
    remove_approved,
    use_approval,
)
from deepwork.checks.input_files import TreeReader, TreeState
from deepwork.checks.models import (
    Check,
    CheckFile,
    CommitProofRequest,
    GuardedChange,
    Proof,
    ProofRequest,
    Subject,
)
from deepwork.checks.output_files import OutputFiles
from deepwork.checks.rules import build_trusted_definitions, find_changed_paths, find_guarded
from deepwork.checks.run_table import Run, RunTable
from deepwork.checks.runner import CheckRunner, InputsChanged, Place, Task
from deepwork.checks.store import ProofStore
from deepwork.checks.verification import Comparison, compare_proof
from deepwork.database.transaction import Database, Transaction
from deepwork.environment import build_child_environment
from deepwork.errors import Code, GateClosed, NotARepository
from deepwork.files.repositories import find_tree_root
from deepwork.git.command import Git
from deepwork.git.snapshot import SnapshotStore
from deepwork.git.snapshot_types import FileChange
from deepwork.trust.models import Kind
from deepwork.trust.policy import list_untrusted

_MAX_RESTARTS = 5
_PROGRESS_SECONDS = 1.0


class CheckService:
    """The checks of one project, for every working tree of its repository."""

    def __init__(
        self,
        database: Database,
        project: Path,
        host: str,
        folder: Path,
        open_snapshots: Callable[[Path], SnapshotStore],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`project` is its folder in the main tree; `folder` gets locks and outputs."""
        self._database, self._project = database, project
        self._open_snapshots = open_snapshots
        self._environment = environment
        self._prefix = _find_prefix(project)
        self._definitions = CheckDefinitions(self._prefix)
        self._reader = TreeReader()
        self._runner = CheckRunner(database, str(project), host, folder, self._reader)
        self._runs = RunTable()
        self._places: dict[Path | None, Place] = {}
        self._base_versions: tuple[str, Mapping[str, str]] = ("", {})
        self._gits: dict[Path, Git] = {}
        self.outputs = OutputFiles(folder)

    def require_defined(self, tree: Path, base: str | None, names: Iterable[str]) -> None:
        """Raise InvalidInput if there is no base commit, or a check is not defined there."""
        self._definitions.select(self._open_git(tree), base, tuple(names))

    def require_trusted(self, tree: Path, base: str, names: Iterable[str]) -> None:
        """Raise GateClosed if nobody trusted the command of one of these checks."""
        file, checks = self._definitions.select(self._open_git(tree), base, tuple(names))
        self._require_trust(base, file, checks)

    def load_definitions(self, tree: Path, base: str) -> CheckFile:
        """Return all checks that are defined at a commit."""
        return self._definitions.load(self._open_git(tree), base)

    def prove(self, request: ProofRequest, *, clean: bool = False) -> tuple[Proof, ...]:
        """Return a proof of each check; raises GateClosed as long as there is none.

        Runs what no proof exists of. No transaction may be open: that takes minutes. With `clean`, every
        check runs in a fresh copy of the tree.
        """
        if not request.names:
            return ()
        place = self._find_place(request.tree)
        file, checks = self._definitions.select(self._open_git(place.top), request.base, request.names)
        self._require_trust(request.base, file, checks)
        if clean:
            checks = [replace(check, clean=True) for check in checks]
        deadline = None if request.wait_seconds is None else time.monotonic() + request.wait_seconds
        state, proofs = self._obtain_proofs(place, request, checks, deadline)
        self._require_green(request, checks, proofs)
        proved = [replace(proof, proved=state.snapshot) for proof in proofs]
        return self._pass_guarded(place, request, file, state, proved)

    def prove_commit(self, request: CommitProofRequest) -> tuple[Proof, ...]:
        """Return a proof of each check for a commit; raises GateClosed as long as there is none.

        The checks run in a clean tree of the commit, so the commit need not be checked out anywhere, and they
        are those of the base, whatever the commit says. No transaction may be open.
        """
        if not request.names:
            return ()
        place = self._find_place(self._project)
        file, checks = self._definitions.select(self._open_git(place.top), request.base, request.names)
        self._require_trust(request.base, file, checks)
        checks = [replace(check, clean=True) for check in checks]
        deadline = None if request.wait_seconds is None else time.monotonic() + request.wait_seconds
        built = [
            self._runner.build_commit_task(place, request.base, check, request.commit) for check in checks
        ]
        tasks = [replace(task, asked_by=str(request.subject)) for task in built]
        proofs = [self._find_proof(task) or self._run(task, deadline) for task in tasks]
        self._require_green(request, checks, proofs)
        return tuple(proofs)

    def record_uses(self, tx: Transaction, subject: Subject, proofs: Sequence[Proof]) -> None:
        """Record, in the transaction that changes its status, that the subject is done with these proofs."""
        for guarded in {id(proof.guarded): proof.guarded for proof in proofs if proof.guarded}.values():
            use_approval(tx, guarded)
        ProofStore(tx).add_uses(subject, [proof.id for proof in proofs])

    def describe_guarded(self, base: str, changes: Iterable[FileChange]) -> list[dict[str, Any]]:
        """Describe those of these changes that only a person may pass, by what a commit guards."""
        place, versions = self._find_place(self._project), {each.path: each for each in changes}
        guarded = find_guarded(self.load_definitions(self._project, base), place.prefix, versions)
        before = {path: version for path in guarded if (version := versions[path].before)}
        after = {path: version for path in guarded if (version := versions[path].after)}
        diffs = read_diffs(place.store, guarded, before, after)
        paths: list[dict[str, Any]] = describe_changes((), before, after, diffs)["paths"]
        return paths

    def verify(self, proof: Proof) -> Comparison:
        """Compare a proof with its output, its definition and its tree."""
        place = self._find_place(self._project)
        return compare_proof(
            proof,
            self.outputs.read(proof.output_file),
            lambda commit: self.load_definitions(self._project, commit),
            place.store,
            place.prefix,
        )

    # --- proofs

    def _obtain_proofs(
        self, place: Place, request: ProofRequest, checks: list[Check], deadline: float | None
    ) -> tuple[TreeState, list[Proof]]:
        """Find or make a proof of each check, all of the same state of the tree."""
        for _ in range(_MAX_RESTARTS):
            state = self._reader.read(place.store, place.top)
            built = [self._runner.build_task(place, request.base, check, state) for check in checks]
            tasks = [replace(task, asked_by=str(request.subject)) for task in built]
            proofs: list[Proof] = []
            has_run = False
            try:
                for task in tasks:
                    found = self._find_proof(task)
                    has_run = has_run or found is None
                    proofs.append(found or self._run(task, deadline))
            except InputsChanged:
                continue
            except GateClosed:  # one still runs: what failed before it would have to run again
                self._require_green(request, checks[: len(proofs)], proofs)
                raise
            if not has_run or not all(proof.is_proving for proof in proofs):
                return state, proofs
            # While one check ran, somebody may have changed what an earlier one depends on.
            state = self._reader.read(place.store, place.top)
            if all(
                state.read_inputs(task.check, place.prefix).digest == task.inputs.digest for task in tasks
            ):
                return state, proofs
        raise _build_running_error(checks[0].name, "Files keep changing while it runs.")

    def _find_proof(self, task: Task) -> Proof | None:
        with self._database.reading() as tx:
            return ProofStore(tx).find_proving(
                task.inputs.digest, task.definition_digest, is_of_landing=task.is_of_landing
            )

    def _run(self, task: Task, deadline: float | None) -> Proof:
        run = self._runs.join(task.key, lambda: self._runner.run(task))
        _wait_for(run, task.check.name, deadline)
        return run.get_proof()

    def _require_green(
        self, request: ProofRequest | CommitProofRequest, checks: Sequence[Check], proofs: Sequence[Proof]
    ) -> None:
        red = [(check, proof) for check, proof in zip(checks, proofs, strict=True) if not proof.is_proving]
        if not red:
            return
        outputs = [self.outputs.read(proof.output_file) or b"" for _, proof in red]
        lines = [
            describe_failure(proof, self._count_attempt(request, proof), check.timeout_seconds)
            for check, proof in red
        ]
        entries = [
            build_entry(proof.check_name, proof.verdict, render_output(output, len(red)))
            for (_, proof), output in zip(red, outputs, strict=True)
        ]
        raise GateClosed(
            " ".join(lines),
            code=Code.CHECKS_FAILED,
            suggestion="Correct the work, not the check, then call again.",
            evidence={"checks": entries},
        )

    def _count_attempt(
        self, request: ProofRequest | CommitProofRequest, proof: Proof
    ) -> tuple[int, int] | None:
        """Return the number of this attempt, and how many there are; red runs count if nobody else does."""
        if request.attempt is None:
            return None
        number, limit = request.attempt
        if number is None:
            with self._database.reading() as tx:
                number = ProofStore(tx).count_red(request.subject, proof.check_name)
        return max(number, 1), limit

    # --- people

    def _require_trust(self, base: str, file: CheckFile, checks: Sequence[Check]) -> None:
        """Raise GateClosed unless a person trusted exactly these definitions."""
        untrusted = list_untrusted(
            self._project, Kind.CHECKS, build_trusted_definitions(file), self._environment
        )
        names = {name.rpartition("@")[0] for name in untrusted}
        if refused := [check.name for check in checks if check.name in names]:
            raise GateClosed(
                f"Nobody trusted the command of check {refused[0]} yet, so it does not run.",
                code=Code.CHECKS_NOT_TRUSTED,
                suggestion="Ask a person to read the commands and run "
                f"`deepwork trust{self._name_commit(base, file)}` in the project, then call again.",
                evidence={"checks": [build_entry(name, "not_trusted", "") for name in refused]},
            )

    def _name_commit(self, base: str, file: CheckFile) -> str:
        """Return the option that names the base, if `deepwork trust` would show other definitions."""
        head = self._definitions.load(self._open_git(self._project), "HEAD")
        return "" if head == file else f" --commit {base[:12]}"

    def _pass_guarded(
        self, place: Place, request: ProofRequest, file: CheckFile, state: TreeState, proofs: list[Proof]
    ) -> tuple[Proof, ...]:
        """Ask a person if the work changed what decides about it; return the proofs with that request."""
        if request.changed_paths == ():
            return tuple(proofs)
        before = self._map_base(place, request.guarded_since or request.base)
        after = state.map_versions()
        # All this is about the files that were proved: looking at the tree again could find other ones.
        changed = request.changed_paths or (*find_changed_paths(before, after), *request.touched_paths)
        guarded = find_guarded(file, place.prefix, changed)
        if guarded and request.changed_paths is None:
            guarded = remove_approved(self._database, request, guarded, after)
        if not guarded:
            return tuple(proofs)
        diffs = read_diffs(place.store, guarded, before, after)
        shown = describe_changes(proofs, before, after, diffs)
        change = GuardedChange(request.subject.id, request.workflow_id, shown)
        if approval := find_approval(self._database, change):
            add_guarded_proofs(self._database, proofs, state.snapshot, request.subject)
            raise build_guarded_error(approval, change, proofs)
        return tuple(replace(proof, guarded=change) for proof in proofs)

    def _map_base(self, place: Place, base: str) -> Mapping[str, str]:
        """Map the files of a commit to their versions; only the last one is kept."""
        known, versions = self._base_versions
        if known != base:
            listed = place.store.list_commit(base)
            versions = {each.path: f"{each.mode} {each.blob}" for each in listed}
            self._base_versions = base, versions
        return versions

    # --- places

    def _find_place(self, tree: Path) -> Place:
        top = find_tree_root(tree)
        if top in self._places:
            return self._places[top]
        if top is None:
            raise NotARepository(f"{tree} is not in a git repository, so nothing can be proved about it.")
        prefix = self._prefix.as_posix()
        place = Place(top, "" if prefix == "." else f"{prefix}/", self._open_snapshots(top))
        self._places[top] = place
        return place

    def _open_git(self, tree: Path) -> Git:
        if tree not in self._gits:
            self._gits[tree] = Git(tree, environment=build_child_environment(self._environment))
        return self._gits[tree]


def _wait_for(run: Run, name: str, deadline: float | None) -> None:
    report = current_call().report_progress
    while True:
        remaining = _PROGRESS_SECONDS if deadline is None else deadline - time.monotonic()
        if run.wait(max(0.0, min(remaining, _PROGRESS_SECONDS))):
            return
        if remaining <= 0 or not current_call().is_wanted():
            raise _build_running_error(name, f"It has been running for {run.seconds} s.")
        report(run.seconds, None, f"Check {name} has been running for {run.seconds} s")


def _build_running_error(name: str, detail: str) -> GateClosed:
    return GateClosed(
        f"Check {name} has not ended yet. {detail}",
        code=Code.CHECKS_RUNNING,
        suggestion="Leave the files as they are and call again with the same arguments: that waits for it.",
        evidence={"checks": [build_entry(name, "running", "")]},
    )


def _find_prefix(project: Path) -> Path:
    top = find_tree_root(project)
    return Path() if top is None else project.relative_to(top)
