"""Runs one check for given inputs, once across all processes of this machine, and stores the proof."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from os import getuid
from pathlib import Path
from tempfile import gettempdir

from deepwork.checks.command import Attempt, run_command
from deepwork.checks.input_files import Inputs, TreeReader, TreeState, read_committed_inputs, read_stamps
from deepwork.checks.junit import MAX_REPORT_BYTES, TestCounts, UnreadableReport, count_tests
from deepwork.checks.models import LANDING, Check, CheckEvent, Proof, Verdict
from deepwork.checks.output_files import OutputFiles
from deepwork.checks.rules import (
    compute_definition_digest,
    decide_verdict,
    find_changed_paths,
    find_count_problem,
    name_paths,
)
from deepwork.checks.run_locks import hold_run_lock
from deepwork.checks.store import ProofStore
from deepwork.database.transaction import Database
from deepwork.environment import build_child_environment
from deepwork.errors import DeepworkError
from deepwork.files.locked_files import is_locked
from deepwork.files.paths import confine, read_confined
from deepwork.files.private import make_private_folder
from deepwork.git.snapshot import SnapshotStore
from deepwork.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.names import new_id

log = logging.getLogger("deepwork")


class InputsChanged(Exception):
    """The files changed before the run could start: another proof is needed now."""


@dataclass(frozen=True)
class Place:
    """The working tree of a task: its root, and the project's folder in it as a prefix of paths."""

    top: Path
    prefix: str
    store: SnapshotStore

    @property
    def folder(self) -> Path:
        return self.top / self.prefix


@dataclass(frozen=True)
class Task:
    """One check to run for these inputs of a tree."""

    place: Place
    base: str
    check: Check
    inputs: Inputs
    state: TreeState
    compared_with: str = ""
    """The digest of the inputs at the base, if the tests are compared with those there."""
    asked_by: str | None = None

    @property
    def definition_digest(self) -> str:
        return compute_definition_digest(self.check, self.compared_with)

    @property
    def is_of_landing(self) -> bool:
        """Whether a landing asks: it shares runs and proofs with other landings only."""
        return (self.asked_by or "").startswith(f"{LANDING}:")

    @property
    def key(self) -> str:
        """What one run is shared for."""
        more = f" {LANDING}" if self.is_of_landing else ""
        return sha256(f"{self.inputs.digest} {self.definition_digest}{more}".encode()).hexdigest()

    def has_inputs_of(self, state: TreeState) -> bool:
        """Whether a state of the tree has the same inputs."""
        return state.read_inputs(self.check, self.place.prefix).digest == self.inputs.digest


@dataclass(frozen=True)
class _Outcome:
    """What all attempts of a run say together."""

    verdict: Verdict
    last: Attempt
    counts: TestCounts | None
    duration_ms: int
    problem: str | None = None


class CheckRunner:
    """Runs checks of one project; proofs go to the database, outputs and locks to a folder."""

    def __init__(self, database: Database, project: str, host: str, folder: Path, reader: TreeReader) -> None:
        self._database, self._project, self._host = database, project, host
        self._folder, self._reader = folder, reader
        self._outputs = OutputFiles(folder)
        self._base_digests: dict[tuple[Path, str, Check], str] = {}

    def build_task(self, place: Place, base: str, check: Check, state: TreeState) -> Task:
        """Build the task to prove a check for a state of a tree."""
        inputs = state.read_inputs(check, place.prefix)
        compared_with = self._digest_base(place, base, check) if check.not_fewer else ""
        return Task(place, base, check, inputs, state, compared_with)

    def build_commit_task(self, place: Place, base: str, check: Check, commit: str) -> Task:
        """Build the task to prove a check for a commit, which no working tree needs to have."""
        inputs = read_committed_inputs(place.store, commit, check, place.prefix)
        compared_with = self._digest_base(place, base, check) if check.not_fewer else ""
        snapshot = Snapshot(SnapshotKind.GIT, commit, commit)
        state = TreeState(place.top, snapshot, {}, {}, frozenset())
        return Task(place, base, check, inputs, state, compared_with)

    def _digest_base(self, place: Place, base: str, check: Check) -> str:
        key = (place.top, base, check)
        if key not in self._base_digests:
            self._base_digests[key] = read_committed_inputs(place.store, base, check, place.prefix).digest
        return self._base_digests[key]

    def run(self, task: Task) -> Proof:
        """Run the check, or wait for another process that does; return the proof."""
        known = {proof.id for proof in self._list_proofs(task)}
        make_private_folder(self._folder)
        with hold_run_lock(self._folder / f"{task.key[:32]}.lock") as lock:
            if made := [proof for proof in self._list_proofs(task) if proof.id not in known]:
                return made[0]  # by the process that held the lock before
            return self._run_locked(task, (lock,))

    def _run_locked(self, task: Task, held: tuple[int, ...]) -> Proof:
        if not task.check.clean and not task.has_inputs_of(
            self._reader.read(task.place.store, task.place.top)
        ):
            raise InputsChanged
        self._emit(CheckEvent.STARTED, {"check": task.check.name, "tree": task.state.snapshot.tree})
        outcome = self._run_in_tree(task, held)
        if outcome.verdict in (Verdict.PASSED, Verdict.FLAKY) and task.check.not_fewer:
            outcome = self._compare_with_base(task, outcome, held)
        return self._store(task, outcome)

    # --- one run

    def _run_in_tree(self, task: Task, held: tuple[int, ...]) -> _Outcome:
        if task.check.clean:
            return self._run_in_clean_tree(task, task.state.snapshot.tree, held)
        place, check = task.place, task.check
        stamps = read_stamps(place.top, task.inputs.paths)
        outcome = self._run_attempts(check, place.folder, held)
        after = self._reader.read(place.store, place.top).read_inputs(check, place.prefix)
        changed = find_changed_paths(
            {file.path: file.version for file in task.inputs.files},
            {file.path: file.version for file in after.files},
        ) or find_changed_paths(stamps, read_stamps(place.top, task.inputs.paths))
        return _refuse_changed(outcome, changed)

    def _run_in_clean_tree(self, task: Task, tree: str, held: tuple[int, ...]) -> _Outcome:
        folder = _get_clean_folder(task.key)
        shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
        make_private_folder(folder)
        try:
            task.place.store.check_out(tree, folder)
            _copy_unstored(task.state, folder, task.inputs.paths)
            stamps = read_stamps(folder, task.inputs.paths)
            outcome = self._run_attempts(task.check, folder / task.place.prefix, held)
            after = read_stamps(folder, task.inputs.paths)
            return _refuse_changed(outcome, find_changed_paths(stamps, after))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run_attempts(self, check: Check, folder: Path, held: tuple[int, ...]) -> _Outcome:
        environment = build_child_environment()
        codes: list[int | None] = []
        duration_ms = 0
        while True:
            counts, problem = None, _remove_report(check, folder)
            attempt = run_command(check, folder, environment, held)
            duration_ms += attempt.duration_ms
            problem = problem or attempt.problem
            if check.junit is not None and attempt.is_green:
                counts, unreadable = _read_report(check, folder)
                problem = problem or unreadable
            codes.append(1 if problem else attempt.exit_code)
            if codes[-1] == 0 or attempt.is_timeout or len(codes) > check.retries:
                verdict = decide_verdict(codes, is_timeout=attempt.is_timeout)
                return _Outcome(verdict, attempt, counts, duration_ms, problem)

    # --- tests at the base

    def _compare_with_base(self, task: Task, outcome: _Outcome, held: tuple[int, ...]) -> _Outcome:
        assert outcome.counts is not None
        problem = find_count_problem(outcome.counts, self._count_at_base(task, held))
        return replace(outcome, verdict=Verdict.FAILED, problem=problem) if problem else outcome

    def _count_at_base(self, task: Task, held: tuple[int, ...]) -> TestCounts | None:
        """Return the tests at the base: of a proof, or else of one run in a clean tree."""
        check = replace(task.check, clean=True, not_fewer=False)
        place = task.place
        inputs = read_committed_inputs(place.store, task.base, check, place.prefix)
        state = replace(
            task.state, snapshot=replace(task.state.snapshot, tree=task.base), unstored=frozenset()
        )
        asked_by = task.asked_by if task.is_of_landing else None
        at_base = Task(place, task.base, check, inputs, state, asked_by=asked_by)
        with hold_run_lock(self._folder / f"{at_base.key[:32]}.lock") as lock:
            for proof in self._list_proofs(at_base):
                if proof.tests_run is not None:
                    return TestCounts(proof.tests_run, proof.tests_skipped or 0)
            outcome = self._run_in_clean_tree(at_base, task.base, (*held, lock))
            self._store(at_base, outcome)
            return outcome.counts

    # --- storage

    def _store(self, task: Task, outcome: _Outcome) -> Proof:
        id = new_id("pf")
        output = outcome.last.output
        if outcome.problem:
            output = output.rstrip(b"\n") + f"\n[deepwork] {outcome.problem}\n".encode()
        path, digest = self._outputs.write(id, output)
        with self._database.transaction() as tx:
            proof = Proof(
                id=id,
                check_name=task.check.name,
                verdict=outcome.verdict,
                inputs_digest=task.inputs.digest,
                definition_digest=task.definition_digest,
                exit_code=outcome.last.exit_code,
                tests_run=outcome.counts.run if outcome.counts else None,
                tests_skipped=outcome.counts.skipped if outcome.counts else None,
                duration_ms=outcome.duration_ms,
                host=self._host,
                project=self._project,
                tree=task.state.snapshot.tree,
                head=task.state.snapshot.head,
                output_file=path.name,
                output_digest=digest,
                created_at=tx.now,
                asked_by=task.asked_by,
            )
            ProofStore(tx).add(proof)
            tx.emit(CheckEvent.FINISHED, describe_event(proof))
        return proof

    def _list_proofs(self, task: Task) -> list[Proof]:
        with self._database.reading() as tx:
            found = ProofStore(tx).list_of_inputs(task.inputs.digest, task.definition_digest)
        runs = [proof for proof in found if proof.verdict is not Verdict.GUARDED]
        return [proof for proof in runs if proof.is_of_landing or not task.is_of_landing]

    def _emit(self, type: str, data: dict[str, object]) -> None:
        with self._database.transaction() as tx:
            tx.emit(type, data)


def describe_event(proof: Proof) -> dict[str, object]:
    """Return what an event says about a proof."""
    return {
        "proof_id": proof.id,
        "check": proof.check_name,
        "verdict": proof.verdict.value,
        "duration_ms": proof.duration_ms,
        "tree": proof.tree,
    }


def _refuse_changed(outcome: _Outcome, changed: list[str]) -> _Outcome:
    """Let a run prove nothing if its inputs changed meanwhile: nobody knows what it has read."""
    if not changed:
        return outcome
    problem = f"Files that it depends on changed while it ran, so it proves nothing: {name_paths(changed)}."
    verdict = outcome.verdict if outcome.verdict is Verdict.TIMED_OUT else Verdict.FAILED
    return replace(outcome, verdict=verdict, problem=problem)


def _remove_report(check: Check, folder: Path) -> str | None:
    """Remove the report of an earlier run, or a prepared one; return why that is not possible."""
    if check.junit is None:
        return None
    parent, _, name = check.junit.rpartition("/")
    try:
        place = confine(folder, parent or ".", must_exist=False)
        (place / name).unlink(missing_ok=True)
    except (DeepworkError, OSError) as error:
        return f"The report {check.junit} cannot be removed before the run: {error}"
    return None


def _read_report(check: Check, folder: Path) -> tuple[TestCounts | None, str | None]:
    assert check.junit is not None
    try:
        return count_tests(read_confined(folder, check.junit, max_bytes=MAX_REPORT_BYTES)), None
    except DeepworkError as error:
        return None, f"It wrote no report that can be read: {error}"
    except UnreadableReport as error:
        return None, f"Its report {check.junit} cannot be used: {error}."


def _get_clean_folder(key: str) -> Path:
    """Return a folder outside the project, where tools find no settings of the project in a parent folder."""
    parent = Path(gettempdir()) / f"deepwork-checks-{getuid()}"
    make_private_folder(parent)
    return parent / key[:32]


def _copy_unstored(state: TreeState, folder: Path, paths: Iterable[str]) -> None:
    """Copy the inputs that are only listed in the snapshot: large untracked files."""
    for path in state.unstored.intersection(paths):
        if (state.top / path).is_file() and not is_locked((state.top / path).lstat()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(state.top / path, folder / path, follow_symlinks=False)
