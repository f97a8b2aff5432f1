"""Runs one check for given inputs, once across all processes of this machine, and stores the proof."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from deepwork.gates.checks.bases import BaseFiles
from deepwork.gates.checks.clean_folders import open_clean_folder
from deepwork.gates.checks.command import CommandRun, run_command
from deepwork.gates.checks.hidden_files import CACHES, list_open_folders
from deepwork.gates.checks.input_files import (
    Inputs,
    TreeReader,
    TreeState,
    hash_content,
    is_own_store,
    read_stamps,
    select_committed_inputs,
)
from deepwork.gates.checks.junit import MAX_REPORT_BYTES, TestCounts, UnreadableReport, count_tests
from deepwork.gates.checks.models import (
    LANDING,
    PROVING_VERDICTS,
    Check,
    CheckEvent,
    CheckVerdict,
    Proof,
    ProofKey,
)
from deepwork.gates.checks.output_files import OutputFiles
from deepwork.gates.checks.rules import (
    compute_definition_digest,
    decide_verdict,
    find_changed_paths,
    find_count_problem,
    find_unexpected,
    name_paths,
    select_guarded,
)
from deepwork.gates.checks.run_locks import hold_run_lock
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.folder_watch import CannotWatch, FolderEvents, FolderWatch
from deepwork.kernel.files.locked_files import is_locked
from deepwork.kernel.files.open_writers import find_open_for_writing
from deepwork.kernel.files.paths import confine, read_confined
from deepwork.kernel.files.pipes import list_pipes
from deepwork.kernel.files.private import make_private_folder
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.names import new_id
from deepwork.kernel.trust.models import Pins
from deepwork.kernel.trust.rules import compute_pins_digest


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
        with _watch(place.top, folders) as watched:
            # In this order: who opens a file later than that changes its time.
            stamps = read_stamps(place.top, task.inputs.paths)
            open_files = find_open_for_writing(place.top, task.inputs.paths)
            # Only now: what was added before and still is there would be an input, the rest is watched. And
            # every file is read again: one that was open may have changed without another time.
            reader = TreeReader()
            if not task.has_inputs_of(self.read_state(place, task.base, check.guarded, reader)):
                raise InputsChanged
            pipes = _find_pipes(task, folders)
            outcome = self._run_attempts(task, place.folder, held)
            after = self.read_state(place, task.base, check.guarded, reader).read_inputs(check, place.prefix)
        changed = find_changed_paths(
            {file.path: file.version for file in task.inputs.files},
            {file.path: file.version for file in after.files},
        ) or find_changed_paths(stamps, read_stamps(place.top, task.inputs.paths))
        found = _find_unexpected(task, watched.events, place.top)
        ignored = place.store.filter_ignored(found.unknown, CACHES, by_tree=True)
        return _refuse(outcome, [*changed, *found.list_without(ignored)], watched, open_files, pipes)

    def _list_folders(self, task: CheckTask) -> set[str]:
        """List the folders of a tree in which a check could find a new file."""
        place, state, check = task.place, task.state, task.check
        rules = self._bases.read_hidden_rules(place.store, task.base, place.prefix, check.guarded)
        with_files = _list_parents((*state.files, *state.hidden))
        return {"", *with_files, *list_open_folders(place.store, rules)}

    def _run_in_clean_tree(self, task: CheckTask, tree: str, held: tuple[int, ...]) -> _Outcome:
        store = task.place.store
        with open_clean_folder() as (folder, lock):
            store.check_out(tree, folder)
            _copy_unstored(task.state, folder, task.inputs.paths)
            folders, expected = _list_all(folder)
            with _watch(folder, folders) as watched:
                # In this order: who opens a file later than that changes its time.
                stamps = read_stamps(folder, task.inputs.paths)
                open_files = find_open_for_writing(folder, expected)
                # Somebody may have changed what was written before all of it was there.
                wrong = self._find_wrong_files(task, tree, folder, expected)
                outcome = self._run_attempts(task, folder / task.place.prefix, (*held, lock))
                after = read_stamps(folder, task.inputs.paths)
                watched.events.added_files |= _list_all(folder)[1] - expected
            found = _find_unexpected(task, watched.events, folder)
        # The rules of the base, not of the work: it could let git ignore what somebody else adds here.
        rules = self._bases.read_all_rules(store, task.base) if found.unknown else ()
        ignored = store.filter_ignored(found.unknown, rules)
        changed = [*wrong, *find_changed_paths(stamps, after), *found.list_without(ignored)]
        return _refuse(outcome, changed, watched, open_files)

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
            counts, problem = None, _remove_report(check, folder)
            attempt = _run_pinned(task, folder, held)
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


def _refuse(
    outcome: _Outcome,
    changed: Iterable[str],
    watched: _Watched,
    open_files: Sequence[str],
    pipes: Collection[str] = (),
) -> _Outcome:
    """Let a run prove nothing if its inputs changed meanwhile: nobody knows what it has read."""
    if paths := sorted(set(changed)):
        problem = (
            f"Files that it depends on changed while it ran, so it proves nothing: {name_paths(paths)}. "
            "If it makes one of them itself, the committed .gitignore of the project has to ignore that one."
        )
    elif open_files:
        problem = (
            "Another program had files open for writing that it depends on, so it proves nothing: "
            f"{name_paths(sorted(open_files))}. Close them there."
        )
    elif pipes:
        named = name_paths(sorted(pipes))
        problem = f"No commit has what it reads from a named pipe, so it proves nothing: {named}."
    elif watched.problem:
        problem = f"Nobody knows whether files appeared while it ran, so it proves nothing: {watched.problem}"
    else:
        return outcome
    verdict = outcome.verdict if outcome.verdict is CheckVerdict.TIMED_OUT else CheckVerdict.FAILED
    return replace(outcome, verdict=verdict, counts=None, problem=problem)


@dataclass
class _Watched:
    """What happened in the folders of a tree while a check ran, or why that is not known."""

    events: FolderEvents = field(default_factory=FolderEvents)
    problem: str | None = None


@contextmanager
def _watch(top: Path, folders: Iterable[str]) -> Iterator[_Watched]:
    watched = _Watched()
    try:
        with FolderWatch(top, folders) as watch:
            watched.events = watch.events
            yield watched
    except CannotWatch as error:
        watched.problem = f"the folders cannot be watched ({error}; see fs.inotify.max_user_watches)."
        yield watched
    if not watched.events.is_complete:
        watched.problem = "too many of them did."


@dataclass(frozen=True)
class _Unexpected:
    """Paths that appeared or disappeared: inputs and their folders, and those that would be inputs."""

    known: set[str]
    unknown: dict[str, str]
    """What git is asked about, and the path that it stands for."""

    def list_without(self, ignored: set[str]) -> list[str]:
        return [*self.known, *(path for asked, path in self.unknown.items() if asked not in ignored)]


def _find_unexpected(task: CheckTask, events: FolderEvents, top: Path) -> _Unexpected:
    check, prefix = task.check, task.place.prefix
    ours = {*task.inputs.paths, *_list_parents(task.inputs.paths)}
    happened = events.added_files | events.added_folders | events.removed
    files = find_unexpected(check, prefix, events.added_files - ours - {".git"})
    files = {path for path in files if not is_own_store(top / path)}
    gone = {path for path in events.added_folders - ours if not os.path.lexists(top / path)}
    folders = find_unexpected(check, prefix, gone, are_folders=True)
    # Git does not know any more that these were folders, so it is asked about a file in them.
    asked = {path: path for path in files} | {f"{path}/any": path for path in folders}
    return _Unexpected(happened & ours, asked)


def _find_pipes(task: CheckTask, folders: Iterable[str]) -> set[str]:
    """Find the named pipes that a check could read; an ignore rule hides none that is guarded."""
    check, place = task.check, task.place
    found = find_unexpected(check, place.prefix, list_pipes(place.top, folders))
    guarded = set(select_guarded(check.guarded, place.prefix, found))
    return found - place.store.filter_ignored(found - guarded, CACHES, by_tree=True)


def _list_parents(paths: Iterable[str]) -> set[str]:
    """List all folders above these files, but not the root."""
    found: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found


def _list_all(top: Path) -> tuple[set[str], set[str]]:
    """List all folders and all files below a folder, relative to it."""
    folders: set[str] = set()
    files: set[str] = set()
    start = len(str(top)) + 1
    for place, inner, names in os.walk(top):
        folder = place[start:]
        folders.add(folder)
        links = [name for name in inner if os.path.islink(f"{place}/{name}")]  # noqa: PTH114
        files.update(f"{folder}/{name}" if folder else name for name in (*names, *links))
    return folders, files


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


def _copy_unstored(state: TreeState, folder: Path, paths: Iterable[str]) -> None:
    """Copy the inputs that are only listed in the snapshot: large untracked files."""
    for path in state.unstored.intersection(paths):
        if (state.top / path).is_file() and not is_locked((state.top / path).lstat()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(state.top / path, folder / path, follow_symlinks=False)
