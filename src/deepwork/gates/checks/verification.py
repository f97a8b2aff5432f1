"""Compares stored proofs with what they are about: the output, the definition and the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from deepwork.gates.checks.input_files import select_committed_inputs
from deepwork.gates.checks.models import Check, CheckFile, Proof
from deepwork.gates.checks.rules import InputFile, compute_definition_digest
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.git.exact_files import to_versions
from deepwork.kernel.git.snapshot import SnapshotStore


@dataclass
class Comparison:
    """What differs, and what could not be compared."""

    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def compare_proof(
    proof: Proof,
    output: bytes | None,
    load_definitions: Callable[[str], CheckFile],
    store: SnapshotStore,
    prefix: str,
) -> Comparison:
    """Compare one proof; `load_definitions` returns the checks of a commit."""
    found = Comparison()
    _compare_output(proof, output, found)
    check = _find_definition(proof, load_definitions)
    if check is None:
        found.unknown.append("Its definition is not in the commits that are known here.")
    else:
        _compare_inputs(proof, check, store, prefix, found)
    return found


def _compare_output(proof: Proof, output: bytes | None, found: Comparison) -> None:
    if output is None:
        found.unknown.append("Its output was removed.")
    elif sha256(output).hexdigest() != proof.output_digest:
        found.problems.append("Its output was changed.")


def _find_definition(proof: Proof, load_definitions: Callable[[str], CheckFile]) -> Check | None:
    for commit in (proof.head, "HEAD"):
        try:
            check = load_definitions(commit).checks.get(proof.check_name) if commit else None
        except DeepworkError:  # the commit is gone, or its file is wrong
            continue
        if check and (found := _match(check, proof)):
            return found
    return None


def _match(check: Check, proof: Proof) -> Check | None:
    """Return the variant of the check with this digest: as defined, in a clean tree, or at the base."""
    clean = replace(check, clean=True)
    variants = (check, clean, replace(clean, not_fewer=False))
    digest, pins = proof.definition_digest, proof.pins_digest
    return next((each for each in variants if compute_definition_digest(each, pins) == digest), None)


def _compare_inputs(proof: Proof, check: Check, store: SnapshotStore, prefix: str, found: Comparison) -> None:
    try:
        stored = select_committed_inputs(to_versions(store.list_exactly(proof.tree)), check, prefix)
    except DeepworkError:
        found.unknown.append("Its tree is not stored here any more.")
        return
    if stored.digest == proof.inputs_digest:
        return
    if any(_is_more_than_stored(file) for file in stored.files):
        found.unknown.append("Its tree has submodules or converts files, so its inputs cannot be compared.")
    else:
        found.problems.append("Its inputs are not those of its tree, or include large untracked files.")


def _is_more_than_stored(file: InputFile) -> bool:
    return file.version.startswith("160000 ") or file.path.endswith(".gitattributes")
