"""Runs one check for given inputs, once across all processes of this machine, and stores the proof."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from deepwork.gates.checks.command import CommandRun, run_command
from deepwork.gates.checks.hidden_files import CACHES, BaseFiles, list_open_folders
from deepwork.gates.checks.input_files import (
    Inputs,
    TreeReader,
    TreeState,
    hash_content,
    read_stamps,
    select_committed_inputs,
)
from deepwork.gates.checks.junit import TestCounts, read_report, remove_report
from deepwork.gates.checks.models import (
    LANDING,
    PROVING_VERDICTS,
    Check,
    CheckEvent,
    CheckVerdict,
    Proof,
    ProofKey,
    compute_definition_digest,
    decide_verdict,
    find_changed_paths,
    find_count_problem,
)
from deepwork.gates.checks.run_files import OutputFiles, hold_run_lock, open_clean_folder
from deepwork.gates.checks.store import ProofStore
from deepwork.gates.checks.watching import (
    find_change_problem,
    find_pipes,
    find_unexpected_paths,
    list_all,
    list_parents,
    watch_folders,
)
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.files.lock import is_locked
from deepwork.kernel.files.private import make_private_folder
from deepwork.kernel.files.watching import find_open_for_writing
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import Pins, compute_pins_digest
from deepwork.kernel.values import new_id


class InputsChanged(Exception):
    """The files changed before the run could start: another proof is needed now."""


@dataclass(frozen=True)
class CheckedTree:
    """The working tree of a task: its root, and the project's folder in it as a prefix of paths."""

    top: Path
    prefix: str
    store: SnapshotStore

    @property
    def folder(self) -> Path:
        return self.top / self.prefix


@dataclass(frozen=True)
class CheckTask:
    """One check to run for these inputs of a tree."""

    place: CheckedTree
    base: str
    check: Check
    pins: Pins
    inputs: Inputs
    state: TreeState
    compared_with: str = ""
    """The digest of the inputs at the base, if the tests are compared with those there."""
    asked_by: str | None = None
    guarded_digest: str | None = None
    """How guarded files differ from the base, if they do."""
    is_gated: bool = False
    """Whether a person has to approve that, so that the proof alone does not count."""

    @cached_property
    def pins_digest(self) -> str:
        return compute_pins_digest(self.pins)

    @cached_property
    def definition_digest(self) -> str:
        return compute_definition_digest(self.check, self.pins_digest, self.compared_with)

    @property
    def is_of_landing(self) -> bool:
        """Whether a landing asks: it shares runs and proofs with other landings only."""
        return (self.asked_by or "").startswith(f"{LANDING}:")

    def build_key(self, project: str, host: str) -> ProofKey:
        """Return what a proof of it is about."""
        digests = self.inputs.digest, self.definition_digest, self.guarded_digest
        asked_by = self.asked_by if self.guarded_digest else None
        return ProofKey(project, host, *digests, asked_by, is_of_landing=self.is_of_landing)

    def has_inputs_of(self, state: TreeState) -> bool:
        """Whether a state of the tree has the same inputs."""
        return state.read_inputs(self.check, self.place.prefix).digest == self.inputs.digest


@dataclass(frozen=True)
class _Outcome:
    """What all attempts of a run say together."""

    verdict: CheckVerdict
    last: CommandRun
    counts: TestCounts | None
    duration_ms: int
    problem: str | None = None


class CheckRunner:
    """Runs checks of one project; proofs go to the database, outputs and locks to a folder."""

    def __init__(
        self, database: Database, project: str, host: str, folder: Path, reader: TreeReader, bases: BaseFiles
    ) -> None:
        self._database, self._project, self._host = database, project, host
        self._folder, self._reader, self._bases = folder, reader, bases
        self._outputs = OutputFiles(folder)
        self._base_digests: dict[tuple[Path, str, Check], str] = {}

    def build_task(
        self, place: CheckedTree, base: str, check: Check, pins: Pins, state: TreeState
    ) -> CheckTask:
        """Build the task to prove a check for a state of a tree."""
        inputs = state.read_inputs(check, place.prefix)
        compared_with = self._digest_base(place, base, check) if check.not_fewer else ""
        return CheckTask(place, base, check, pins, inputs, state, compared_with)

    def build_commit_task(
        self,
        place: CheckedTree,
        base: str,
        check: Check,
        pins: Pins,
        commit: str,
        versions: Mapping[str, str],
    ) -> CheckTask:
        """Build the task to prove a check for a commit with these files; no working tree needs to have it."""
        inputs = select_committed_inputs(versions, check, place.prefix)
        compared_with = self._digest_base(place, base, check) if check.not_fewer else ""
        snapshot = Snapshot(SnapshotKind.GIT, commit, commit)
        state = TreeState(place.top, snapshot, {}, {}, frozenset())
        return CheckTask(place, base, check, pins, inputs, state, compared_with)

    def read_state(
        self, place: CheckedTree, base: str, guarded: tuple[str, ...], reader: TreeReader | None = None
    ) -> TreeState:
        """Read the files of a tree now, with those that rules of the base do not hide."""
        rules = self._bases.read_hidden_rules(place.store, base, place.prefix, guarded)
        return (reader or self._reader).read(place.store, place.top, rules)

    def find_proof(self, task: CheckTask) -> Proof | None:
        """Return a proof that makes a run unnecessary."""
        with self._database.reading() as tx:
            return ProofStore(tx).find_proving(task.build_key(self._project, self._host))

    def get_key(self, task: CheckTask) -> str:
        """Return what one run is shared for."""
        return sha256(repr(astuple(task.build_key(self._project, self._host))).encode()).hexdigest()

    def _digest_base(self, place: CheckedTree, base: str, check: Check) -> str:
        key = (place.top, base, check)
        if key not in self._base_digests:
            self._base_digests[key] = self._read_base_inputs(place, base, check).digest
        return self._base_digests[key]

    def _read_base_inputs(self, place: CheckedTree, base: str, check: Check) -> Inputs:
        return select_committed_inputs(self._bases.map_versions(place.store, base), check, place.prefix)

    def run(self, task: CheckTask) -> Proof:
        """Run the check, or wait for another process that does; return the proof."""
        known = {proof.id for proof in self._list_proofs(task)}
        if found := self.find_proof(task):  # stored since somebody looked for one
            return found
        make_private_folder(self._folder)
        with hold_run_lock(self._folder / f"{self.get_key(task)[:32]}.lock") as lock:
            if made := [proof for proof in self._list_proofs(task) if proof.id not in known]:
                return made[0]  # by the process that held the lock before
            return self._run_locked(task, (lock,))

    def _run_locked(self, task: CheckTask, held: tuple[int, ...]) -> Proof:
        self._emit(CheckEvent.STARTED, {"check": task.check.name, "tree": task.state.snapshot.tree})
        if task.check.clean:
            outcome = self._run_in_clean_tree(task, task.state.snapshot.tree, held)
        else:
            outcome = self._run_in_tree(task, held)
        if outcome.verdict in PROVING_VERDICTS and task.check.not_fewer:
            outcome = self._compare_with_base(task, outcome, held)
        return self._store(task, outcome)

    # --- one run

    def _run_in_tree(self, task: CheckTask, held: tuple[int, ...]) -> _Outcome:
        place, check = task.place, task.check
        folders = self._list_folders(task)
        with watch_folders(place.top, folders) as watched:
            # In this order: who opens a file later than that changes its time.
            stamps = read_stamps(place.top, task.inputs.paths)
            open_files = find_open_for_writing(place.top, task.inputs.paths)
            # Only now: what was added before and still is there would be an input, the rest is watched. And
            # every file is read again: one that was open may have changed without another time.
            reader = TreeReader()
            if not task.has_inputs_of(self.read_state(place, task.base, check.guarded, reader)):
                raise InputsChanged
            pipes = find_pipes(check, place.prefix, place.store, place.top, folders)
            outcome = self._run_attempts(task, place.folder, held)
            # Not every file system gives a time to changes by a mapping that was opened meanwhile.
            open_files += find_open_for_writing(place.top, task.inputs.paths)
            after = self.read_state(place, task.base, check.guarded, reader).read_inputs(check, place.prefix)
        changed = find_changed_paths(
            {file.path: file.version for file in task.inputs.files},
            {file.path: file.version for file in after.files},
        ) or find_changed_paths(stamps, read_stamps(place.top, task.inputs.paths))
        found = find_unexpected_paths(check, place.prefix, task.inputs.paths, watched.events, place.top)
        ignored = place.store.filter_ignored(found.unknown, CACHES, by_tree=True)
        changed += found.list_without(ignored)
        return _refuse(outcome, find_change_problem(changed, watched, open_files, pipes))

    def _list_folders(self, task: CheckTask) -> set[str]:
        """List the folders of a tree in which a check could find a new file."""
        place, state, check = task.place, task.state, task.check
        rules = self._bases.read_hidden_rules(place.store, task.base, place.prefix, check.guarded)
        with_files = list_parents((*state.files, *state.hidden))
        return {"", *with_files, *list_open_folders(place.store, rules)}

    def _run_in_clean_tree(self, task: CheckTask, tree: str, held: tuple[int, ...]) -> _Outcome:
        store = task.place.store
        with open_clean_folder() as (folder, lock):
            store.check_out(tree, folder)
            _copy_unstored(task.state, folder, task.inputs.paths)
            folders, expected = list_all(folder)
            with watch_folders(folder, folders) as watched:
                # In this order: who opens a file later than that changes its time.
                stamps = read_stamps(folder, task.inputs.paths)
                open_files = find_open_for_writing(folder, expected)
                # Somebody may have changed what was written before all of it was there.
                wrong = self._find_wrong_files(task, tree, folder, expected)
                outcome = self._run_attempts(task, folder / task.place.prefix, (*held, lock))
                open_files += find_open_for_writing(folder, expected)
                after = read_stamps(folder, task.inputs.paths)
                watched.events.added_files |= list_all(folder)[1] - expected
            found = find_unexpected_paths(
                task.check, task.place.prefix, task.inputs.paths, watched.events, folder
            )
        # The rules of the base, not of the work: it could let git ignore what somebody else adds here.
        rules = self._bases.read_all_rules(store, task.base) if found.unknown else ()
        ignored = store.filter_ignored(found.unknown, rules)
        changed = [*wrong, *find_changed_paths(stamps, after), *found.list_without(ignored)]
        return _refuse(outcome, find_change_problem(changed, watched, open_files))

    def _find_wrong_files(self, task: CheckTask, tree: str, folder: Path, found: set[str]) -> list[str]:
        """List the files of a clean tree that are not as they were written."""
        store, versions = task.place.store, {file.path: file.version for file in task.inputs.files}
        copied = task.state.unstored & versions.keys()
        files = store.list_exactly(tree)
        wrong = [path for path in copied if versions[path] != f"content {hash_content(folder / path)}"]
        stored = {file.path for file in files}
        return [*store.find_wrong_checkout(files, folder), *wrong, *(found - stored - copied)]

    def _run_attempts(self, task: CheckTask, folder: Path, held: tuple[int, ...]) -> _Outcome:
        check = task.check
        codes: list[int | None] = []
        duration_ms = 0
        while True:
            counts, problem = None, remove_report(folder, check.junit)
            attempt = _run_pinned(task, folder, held)
            duration_ms += attempt.duration_ms
            problem = problem or attempt.problem
            if check.junit is not None and attempt.is_green:
                counts, unreadable = read_report(folder, check.junit)
                problem = problem or unreadable
            codes.append(1 if problem else attempt.exit_code)
            if codes[-1] == 0 or attempt.is_timeout or len(codes) > check.retries:
                verdict = decide_verdict(codes, is_timeout=attempt.is_timeout)
                return _Outcome(verdict, attempt, counts, duration_ms, problem)

    # --- tests at the base

    def _compare_with_base(self, task: CheckTask, outcome: _Outcome, held: tuple[int, ...]) -> _Outcome:
        assert outcome.counts is not None
        problem = find_count_problem(outcome.counts, self._count_at_base(task, held))
        return replace(outcome, verdict=CheckVerdict.FAILED, problem=problem) if problem else outcome

    def _count_at_base(self, task: CheckTask, held: tuple[int, ...]) -> TestCounts | None:
        """Return the tests at the base: of a proof, or else of one run in a clean tree."""
        check = replace(task.check, clean=True, not_fewer=False)
        place = task.place
        inputs = self._read_base_inputs(place, task.base, check)
        state = replace(
            task.state, snapshot=replace(task.state.snapshot, tree=task.base), unstored=frozenset()
        )
        asked_by = task.asked_by if task.is_of_landing else None
        at_base = CheckTask(place, task.base, check, task.pins, inputs, state, asked_by=asked_by)
        with hold_run_lock(self._folder / f"{self.get_key(at_base)[:32]}.lock") as lock:
            for proof in self._list_proofs(at_base):
                if proof.tests_run is not None:
                    return TestCounts(proof.tests_run, proof.tests_skipped or 0)
            outcome = self._run_in_clean_tree(at_base, task.base, (*held, lock))
            self._store(at_base, outcome)
            return outcome.counts

    # --- storage

    def _store(self, task: CheckTask, outcome: _Outcome) -> Proof:
        id = new_id("pf")
        output = outcome.last.output
        if outcome.problem:
            output = output.rstrip(b"\n") + f"\n[deepwork] {outcome.problem}\n".encode()
        path, digest = self._outputs.write(id, output)
        with self._database.transaction() as tx:
            proof = Proof(
                id=id,
                check_name=task.check.name,
                verdict=_hold_back(outcome.verdict) if task.is_gated else outcome.verdict,
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
                is_clean=task.check.clean,
                pins_digest=task.pins_digest,
                guarded_digest=task.guarded_digest,
            )
            ProofStore(tx).add(proof)
            tx.emit(CheckEvent.FINISHED, describe_event(proof))
        return proof

    def _list_proofs(self, task: CheckTask) -> list[Proof]:
        with self._database.reading() as tx:
            return ProofStore(tx).list_of(task.build_key(self._project, self._host))

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


def _run_pinned(task: CheckTask, folder: Path, held: tuple[int, ...]) -> CommandRun:
    """Run the command with the program and the environment that a person trusted."""
    program, check = task.pins.program, task.check
    if program is None:
        problem = f"{check.run[0]!a} cannot be started: there was no such program when it was trusted."
        return CommandRun(None, is_timeout=False, output=b"", duration_ms=0, problem=problem)
    return run_command(replace(check, run=(program, *check.run[1:])), folder, task.pins.environment, held)


def _hold_back(verdict: CheckVerdict) -> CheckVerdict:
    """Return the verdict of a run that a person has to look at before it counts."""
    return CheckVerdict.GUARDED if verdict in PROVING_VERDICTS else verdict


def _refuse(outcome: _Outcome, problem: str | None) -> _Outcome:
    """Let a run prove nothing if its inputs may have changed meanwhile: nobody knows what it has read."""
    if problem is None:
        return outcome
    verdict = outcome.verdict if outcome.verdict is CheckVerdict.TIMED_OUT else CheckVerdict.FAILED
    return replace(outcome, verdict=verdict, counts=None, problem=problem)


def _copy_unstored(state: TreeState, folder: Path, paths: Iterable[str]) -> None:
    """Copy the inputs that are only listed in the snapshot: large untracked files."""
    for path in state.unstored.intersection(paths):
        if (state.top / path).is_file() and not is_locked((state.top / path).lstat()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(state.top / path, folder / path, follow_symlinks=False)
