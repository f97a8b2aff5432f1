"""Proves that checks pass, or says why work does not count as done yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepwork.gates.checks.definitions import CheckDefinitions
from deepwork.gates.checks.guarded_changes import (
    Difference,
    FindAuthors,
    GuardedStarts,
    build_guarded_error,
    describe_changes,
    find_approval,
    list_ever_asked,
    read_diffs,
    remove_approved,
    use_approval,
)
from deepwork.gates.checks.hidden_files import BaseFiles
from deepwork.gates.checks.input_files import TreeReader, TreeState
from deepwork.gates.checks.models import (
    Check,
    CheckFile,
    CheckVerdict,
    CommitProofRequest,
    GuardedChange,
    GuardedStart,
    Proof,
    ProofRequest,
    ProofSubject,
    find_changed_paths,
    select_guarded,
)
from deepwork.gates.checks.responses import build_entry, describe_failure, render_output
from deepwork.gates.checks.run_files import CheckRun, OutputFiles, RunTable
from deepwork.gates.checks.runner import CheckedTree, CheckRunner, CheckTask, InputsChanged
from deepwork.gates.checks.store import ProofStore
from deepwork.gates.checks.trusting import Comparison, compare_proof, find_pins
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed, NotAllowed, NotARepository
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.exact_files import require_contents, to_versions
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.states import Command
from deepwork.kernel.user_settings import Pins, build_git_environment, compute_digest

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
        find_authors: FindAuthors = lambda _tree, _paths: {},
    ) -> None:
        """`project` is its folder in the main tree; `folder` gets locks and outputs."""
        self._database, self._project, self._host = database, project, host
        self._open_snapshots = open_snapshots
        self._environment = environment
        self._prefix = _find_prefix(project)
        self._definitions = CheckDefinitions(self._prefix)
        self._bases, self._judged = BaseFiles(), BaseFiles()
        self._starts = GuardedStarts(database, host)
        self._find_authors = find_authors
        self._runner = CheckRunner(database, str(project), host, folder, TreeReader(), self._bases)
        self._runs = RunTable()
        self._places: dict[Path | None, CheckedTree] = {}
        self._gits: dict[Path, Git] = {}
        self.outputs = OutputFiles(folder)

    def require_defined(self, tree: Path, base: str | None, names: Iterable[str]) -> None:
        """Raise InvalidInput if there is no base commit, or a check is not defined there."""
        self._definitions.select(self._open_git(tree), base, tuple(names))

    def find_start(self, tree: Path, base: str) -> GuardedStart:
        """Return which guarded files differ from the base before work begins."""
        place, file = self._find_place(tree), self._definitions.load(self._open_git(tree), base)
        state = self._runner.read_state(place, base, file.guarded)
        differences = self._find_differences(place, base, file, state)
        return GuardedStart(self._host, place.top, {each.path: each.after for each in differences})

    def require_trusted(self, tree: Path, base: str, names: Iterable[str]) -> None:
        """Raise GateClosed if nobody trusted the command of one of these checks."""
        file, checks = self._definitions.select(self._open_git(tree), base, tuple(names))
        self._require_pins(base, file, checks)

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
        file, checks = self._definitions.select_for(self._open_git(place.top), request)
        pins = self._require_pins(request.base, file, checks)
        if clean:
            checks = [replace(check, clean=True) for check in checks]
        deadline = None if request.wait_seconds is None else time.monotonic() + request.wait_seconds
        differences, proofs = self._obtain_proofs(place, request, file, checks, pins, deadline)
        self._require_green(request, checks, proofs)
        return self._pass_guarded(place, request, differences, proofs)

    def prove_commit(self, request: CommitProofRequest) -> tuple[Proof, ...]:
        """Return a proof of each check for a commit; raises GateClosed as long as there is none.

        The checks run in a clean tree of the commit, so the commit need not be checked out anywhere, and they
        are those of the base, whatever the commit says. No transaction may be open.
        """
        if not request.names:
            return ()
        place = self._find_place(self._project)
        file, checks = self._definitions.select_for(self._open_git(place.top), request)
        pins = self._require_pins(request.base, file, checks)
        checks = [replace(check, clean=True) for check in checks]
        deadline = None if request.wait_seconds is None else time.monotonic() + request.wait_seconds
        committed = self._judged.map_versions(place.store, request.commit)
        about = _digest_differences(self._compare_commit(place, request.base, file, request.commit))
        tasks = [
            self._runner.build_commit_task(
                place, request.base, check, pins[check.name], request.commit, committed
            )
            for check in checks
        ]
        tasks = [replace(task, asked_by=str(request.subject), guarded_digest=about) for task in tasks]
        proofs = [self._runner.find_proof(task) or self._run(task, deadline) for task in tasks]
        self._require_green(request, checks, proofs)
        return tuple(proofs)

    def record_uses(self, tx: Transaction, subject: ProofSubject, proofs: Sequence[Proof]) -> None:
        """Record, in the transaction that changes its status, that the subject is done with these proofs."""
        for guarded in {id(proof.guarded): proof.guarded for proof in proofs if proof.guarded}.values():
            use_approval(tx, guarded)
        store = ProofStore(tx)
        store.pass_guarded(proof.id for proof in proofs if proof.guarded)
        store.add_uses(subject, [proof.id for proof in proofs])

    def describe_guarded(self, base: str, commit: str) -> list[dict[str, Any]]:
        """Describe how a commit differs from the base in what only a person may change there."""
        place, file = self._find_place(self._project), self.load_definitions(self._project, base)
        differences = self._compare_commit(place, base, file, commit)
        shown = describe_changes((), differences, read_diffs(place.store, differences))
        return list(shown["paths"])

    def select_guarded(self, tree: Path, base: str, paths: Iterable[str]) -> list[str]:
        """Return those of these changed files that decide whether checks pass, by the checks of the base."""
        return select_guarded(self.load_definitions(tree, base).guarded, self._find_place(tree).prefix, paths)

    def list_changed_files(self, before: str, after: str) -> list[tuple[str, str]]:
        """List the files that differ between two commits, with the letter that git has for how."""
        store = self._find_place(self._project).store
        old, new = self._bases.map_versions(store, before), self._judged.map_versions(store, after)
        return [
            (path, "D" if path not in new else "M" if path in old else "A")
            for path in find_changed_paths(old, new)
        ]

    def require_contents(self, before: str, after: str) -> None:
        """Raise GitError unless files that differ between two commits have the content of their hashes."""
        place = self._find_place(self._project)
        old = to_versions(place.store.list_exactly(before))
        new = place.store.list_exactly(after)
        changed = [file for file in new if old.get(file.path) != f"{file.mode} {file.blob}"]
        require_contents(self._open_git(place.top), changed)

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
        self,
        place: CheckedTree,
        request: ProofRequest,
        file: CheckFile,
        checks: list[Check],
        pins: Mapping[str, Pins],
        deadline: float | None,
    ) -> tuple[list[Difference], list[Proof]]:
        """Find or make a proof of each check, all of the same state of the tree.

        Returned with what the work changed in guarded files, in the same state.
        """
        for _ in range(_MAX_RESTARTS):
            state = self._runner.read_state(place, request.base, file.guarded)
            differences = self._find_guarded(place, request, file, state)
            tasks = self._build_tasks(place, request, checks, pins, state, differences)
            self._require_links_inside(place, request, tasks)
            proofs: list[Proof] = []
            has_run = False
            try:
                for task in tasks:
                    found = self._runner.find_proof(task)
                    has_run = has_run or found is None
                    proofs.append(found or self._run(task, deadline))
            except InputsChanged:
                continue
            except GateClosed:  # one still runs: what failed before it would have to run again
                self._require_green(request, checks[: len(proofs)], proofs)
                raise
            if not has_run or not all(proof.is_green for proof in proofs):
                return differences, _bind(proofs, state)
            # While one check ran, somebody may have changed what an earlier one depends on.
            state = self._runner.read_state(place, request.base, file.guarded)
            if all(task.has_inputs_of(state) for task in tasks):
                return differences, _bind(proofs, state)
        raise _build_running_error(checks[0].name, "Files keep changing while it runs.")

    def _build_tasks(
        self,
        place: CheckedTree,
        request: ProofRequest,
        checks: Iterable[Check],
        pins: Mapping[str, Pins],
        state: TreeState,
        differences: Sequence[Difference],
    ) -> list[CheckTask]:
        is_gated = bool(differences) and request.changed_paths != ()
        return [
            replace(
                self._runner.build_task(place, request.base, check, pins[check.name], state),
                asked_by=str(request.subject),
                guarded_digest=_digest_differences(differences),
                is_gated=is_gated,
            )
            for check in checks
        ]

    def _require_links_inside(
        self, place: CheckedTree, request: ProofRequest, tasks: Iterable[CheckTask]
    ) -> None:
        """Raise NotAllowed for a new link that leads out of the tree: no commit has what is there.

        What the work touched is new even if the base has it: a target that was moved brings a base along.
        """
        links = {link for task in tasks for link in task.inputs.links}
        versions = self._bases.map_versions(place.store, request.base) if links else {}
        for file in sorted(links, key=lambda each: each.path):
            is_new = versions.get(file.path) != file.version or file.path in request.touched_paths
            if is_new and not (place.top / file.path).resolve().is_relative_to(place.top.resolve()):
                raise NotAllowed(
                    f"{file.path[:200]!a} is a link out of the tree, so checks would prove nothing.",
                    suggestion="Replace the link by a file, then call again.",
                )

    def _run(self, task: CheckTask, deadline: float | None) -> Proof:
        run = self._runs.join(self._runner.get_key(task), lambda: self._runner.run(task))
        _wait_for(run, task.check.name, deadline)
        return run.get_proof()

    def _require_green(
        self, request: ProofRequest | CommitProofRequest, checks: Sequence[Check], proofs: Sequence[Proof]
    ) -> None:
        red = [(check, proof) for check, proof in zip(checks, proofs, strict=True) if not proof.is_green]
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
        passed = [proof.check_name for proof in proofs if proof.is_green]
        raise GateClosed(
            " ".join(lines),
            code=Code.CHECKS_FAILED,
            suggestion="Correct the work, not the check, then call again.",
            evidence={"checks": entries, **({"passed": passed} if passed else {})},
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

    def _require_pins(self, base: str, file: CheckFile, checks: Sequence[Check]) -> dict[str, Pins]:
        """Return what checks run with; raises GateClosed unless a person trusted exactly that."""
        pins, problems = find_pins(self._project, checks, self._environment)
        if problems:
            refused = next(iter(problems))
            command = f"{Command.TRUST}{self._name_commit(base, file)}"
            raise GateClosed(
                problems[refused],
                code=Code.CHECKS_NOT_TRUSTED,
                suggestion=f"Ask a person to read the commands and run `{command}` in the project, "
                "then call again.",
                command=command,
                evidence={"checks": [build_entry(name, "not_trusted", "") for name in problems]},
            )
        return pins

    def _name_commit(self, base: str, file: CheckFile) -> str:
        """Return the option that names the base, if `deepwork trust` would show other definitions."""
        head = self._definitions.load(self._open_git(self._project), "HEAD")
        return "" if head == file else f" --commit {base[:12]}"

    def _find_guarded(
        self, place: CheckedTree, request: ProofRequest, file: CheckFile, state: TreeState
    ) -> list[Difference]:
        """Return what the work changed in guarded files, in a state of its tree."""
        since = request.guarded_since or request.base
        after = state.map_guarded(place.prefix, file.guarded)
        found = self._compare_guarded(place, since, file, after)
        if request.changed_paths:
            found = [each for each in found if each.path in request.changed_paths]
        touched = select_guarded(
            file.guarded, place.prefix, (*(request.changed_paths or ()), *request.touched_paths)
        )
        known = {each.path for each in found}
        before = self._bases.map_versions(place.store, since)
        found += [
            Difference(path, before.get(path), after.get(path)) for path in touched if path not in known
        ]
        return self._remove_earlier(place, request, touched, found)

    def _find_differences(
        self, place: CheckedTree, base: str, file: CheckFile, state: TreeState
    ) -> list[Difference]:
        return self._compare_guarded(place, base, file, state.map_guarded(place.prefix, file.guarded))

    def _compare_commit(
        self, place: CheckedTree, base: str, file: CheckFile, commit: str
    ) -> list[Difference]:
        after = self._judged.map_guarded(place.store, commit, place.prefix, file.guarded)
        return self._compare_guarded(place, base, file, after)

    def _compare_guarded(
        self, place: CheckedTree, base: str, file: CheckFile, after: Mapping[str, str]
    ) -> list[Difference]:
        """Return how guarded files differ from those of a commit."""
        before = self._bases.map_guarded(place.store, base, place.prefix, file.guarded)
        changed = find_changed_paths(before, after)
        return [Difference(path, before.get(path), after.get(path)) for path in changed]

    def _remove_earlier(
        self, place: CheckedTree, request: ProofRequest, touched: Iterable[str], found: list[Difference]
    ) -> list[Difference]:
        """Remove what differed before the work began, unless other work made it or this one touched it."""
        start = self._starts.find(request.workflow_id, place.top) if found and request.workflow_id else {}
        same = {each.path: each for each in found if start.get(each.path, "") == each.after}
        earlier = same.keys() - set(touched)
        if not earlier:
            return found
        approved = self._starts.list_approved(place.top)
        unseen = sorted(path for path in earlier if (path, same[path].after) not in approved)
        if not unseen:
            return [each for each in found if each.path not in earlier]
        asked = list_ever_asked(self._database)
        made = {path for path in unseen if (path, same[path].after) in asked}
        made |= self._find_authors(place.top, unseen).keys()
        return [each for each in found if each.path not in earlier - made]

    def _pass_guarded(
        self, place: CheckedTree, request: ProofRequest, differences: list[Difference], proofs: list[Proof]
    ) -> tuple[Proof, ...]:
        """Ask a person if the work changed what decides about it; return the proofs with that request."""
        if request.changed_paths is None:
            differences = remove_approved(self._database, request, differences)
        if not differences or request.changed_paths == ():
            return tuple(replace(proof, verdict=_pass(proof.verdict)) for proof in proofs)
        diffs = read_diffs(place.store, differences)
        shown = describe_changes(proofs, differences, diffs)
        change = GuardedChange(request.subject.id, request.workflow_id, shown)
        if approval := find_approval(self._database, change):
            authors = self._find_authors(place.top, [each.path for each in differences])
            raise build_guarded_error(approval, change, proofs, authors)
        return tuple(replace(proof, guarded=change, verdict=_pass(proof.verdict)) for proof in proofs)

    # --- places

    def _find_place(self, tree: Path) -> CheckedTree:
        top = find_tree_root(tree)
        if top in self._places:
            return self._places[top]
        if top is None:
            raise NotARepository(f"{tree} is not in a git repository, so nothing can be proved about it.")
        prefix = self._prefix.as_posix()
        place = CheckedTree(top, "" if prefix == "." else f"{prefix}/", self._open_snapshots(top))
        self._places[top] = place
        return place

    def _open_git(self, tree: Path) -> Git:
        if tree not in self._gits:
            self._gits[tree] = Git(tree, environment=build_git_environment(tree, self._environment))
        return self._gits[tree]


def _wait_for(run: CheckRun, name: str, deadline: float | None) -> None:
    report = current_call().report_progress
    while True:
        remaining = _PROGRESS_SECONDS if deadline is None else deadline - time.monotonic()
        if run.wait(max(0.0, min(remaining, _PROGRESS_SECONDS))):
            return
        if remaining <= 0 or not current_call().is_wanted():
            raise _build_running_error(name, f"It has been running for {run.seconds} s.")
        report(run.seconds, None, f"Check {name} has been running for {run.seconds} s")


def _bind(proofs: Iterable[Proof], state: TreeState) -> list[Proof]:
    """Return the proofs with the whole tree that they count for."""
    return [replace(proof, proved=state.snapshot) for proof in proofs]


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


def _digest_differences(differences: Iterable[Difference]) -> str | None:
    found = [(each.path, each.before, each.after) for each in differences]
    return compute_digest(found) if found else None


def _pass(verdict: CheckVerdict) -> CheckVerdict:
    """Return the verdict of a proof once nobody has to look at it any more."""
    return CheckVerdict.PASSED if verdict is CheckVerdict.GUARDED else verdict
