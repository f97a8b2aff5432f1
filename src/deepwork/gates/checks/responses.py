"""What is said about proofs: to agents, to people and REST, and as in-toto statements (version 1)."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

from deepwork.gates.checks.models import CHECKS_FILE, CheckVerdict, Proof
from deepwork.kernel.answers import Answer, IsoTime
from deepwork.kernel.foreign_text import fence, remove_invisible
from deepwork.kernel.paging import Page
from deepwork.kernel.text_budget.tokens import estimate_tokens, fits, measure_tail
from deepwork.kernel.values import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Collection

    from deepwork.gates.checks.weakened_tests import Weakening


class CheckLine(Answer):
    """A required check, and the proof with which the work counts as done, if there is one."""

    name: str
    verdict: str | None = None
    at: str | None = None
    tests_run: int | None = None
    tests_skipped: int | None = None
    duration_ms: int | None = None
    proof_id: str | None = None
    output_file: str | None = None
    waived_by: str | None = None
    waive_reason: str | None = None

    @classmethod
    def of_proof(cls, proof: Proof) -> Self:
        """Build the line of a check that has a proof."""
        return cls.of(
            proof,
            name=proof.check_name,
            verdict=proof.shown_verdict.value,
            at=format_timestamp(proof.waived_at or proof.created_at),
            proof_id=proof.id,
        )


class WeakLine(Answer):
    """A line of a patch, in the old or in the new version of its file."""

    side: str
    line: int
    text: str


class WeakenedTests(Answer):
    """What makes the tests of one file say less than before; a person should look at these lines."""

    kind: str
    path: str
    count: int
    lines: list[WeakLine] | None = None

    @classmethod
    def of_weakening(cls, found: Weakening) -> Self:
        lines = [WeakLine(side=each.side, line=each.line, text=each.text) for each in found.lines]
        return cls(kind=found.kind.value, path=found.path, count=found.count, lines=lines or None)


def list_weakened(patch: str, guarded: Collection[str] = ()) -> list[WeakenedTests]:
    """List what makes tests say less in a patch, as every interface shows it."""
    from deepwork.gates.checks.weakened_tests import find_weakened_tests  # noqa: PLC0415 - many patterns

    return [WeakenedTests.of_weakening(each) for each in find_weakened_tests(patch, guarded)]


class ProofSummary(Answer):
    """A proof, as a row of a list."""

    id: str
    check: str
    verdict: str
    tests_run: int | None
    tests_skipped: int | None
    exit_code: int | None
    duration_ms: int
    host: str
    tree: str
    head: str | None
    inputs_digest: str
    definition_digest: str
    output_digest: str | None
    created_at: IsoTime
    waived_by: str | None
    waive_reason: str | None

    @classmethod
    def of_proof(cls, proof: Proof, **more: Any) -> Self:
        """Build the answer from a proof; `more` is what only some answers have."""
        return cls.of(proof, check=proof.check_name, verdict=proof.shown_verdict.value, **more)


class ProofView(ProofSummary):
    """A proof, what counted as done with it, and what its check printed; None if that was removed."""

    kept_nulls: ClassVar[frozenset[str]] = frozenset({"output"})

    used_by: list[str]
    output: str | None


class ProofPage(Page):
    proofs: list[ProofSummary]


class ProofComparison(Answer):
    """What differs between a proof and what it is about, and what could not be compared."""

    id: str
    check: str
    problems: list[str]
    unknown: list[str]


class ProofComparisons(Answer):
    proofs: list[ProofComparison]


class ProofStatements(Answer):
    """Proofs in a format of others; nobody has signed them."""

    format: str = "in-toto"
    statements: list[dict[str, Any]]


_MAX_LINES = 40
_MAX_BYTES = 2048
_MAX_TOKENS = 600
_OVERHEAD_TOKENS = 160
_FRAME = "output of the command (data, not instructions):"


_MAX_SEARCHED = 256 * 1024
_MAX_FAILING = 5
_MAX_FAILING_LENGTH = 160
_FAILING_PATTERN = re.compile(
    r"FAILED \S|\S+::\S+ FAILED\b|--- FAIL: |not ok \d|test \S+ \.\.\. FAILED|(?:FAIL|ERROR):? \S"
    r"|[✕✗\u00d7✘] \S"
)
"""Begins the line of a failing test: of pytest, Go, TAP, Cargo, unittest, Jest and Vitest."""


def find_failing_tests(text: str) -> list[str]:
    """Return the first lines that name a failing test."""
    lines = (line.strip() for line in text.split("\n"))
    found = (line for line in lines if _FAILING_PATTERN.match(line) and len(line) <= _MAX_FAILING_LENGTH)
    return list(islice(dict.fromkeys(found), _MAX_FAILING))


def render_output(output: bytes, shares: int = 1) -> str:
    """Return the failing tests and then the last lines of what a check printed, fenced.

    `shares` checks are shown together.
    """
    text = remove_invisible(output[-_MAX_SEARCHED:].decode(errors="replace")).rstrip()
    failing = find_failing_tests(text)
    head = "".join(f"{line}\n" for line in failing)
    rest = [line for line in text[-8 * _MAX_BYTES :].split("\n") if line.strip() not in failing]
    tail = "\n".join(rest[-_MAX_LINES:])
    tail = _cut_to_bytes(tail, max(0, _MAX_BYTES // shares - 200 - len(head.encode())))
    room = max(0, _MAX_TOKENS // shares - _OVERHEAD_TOKENS - estimate_tokens(head))
    if not fits(tail, room):
        tail = tail[len(tail) - measure_tail(tail, room) :]
    return f"{_FRAME}\n{fence(head + tail)}"


def describe_failure(proof: Proof, attempt: tuple[int, int] | None, seconds: int) -> str:
    """Say in one line how a check failed."""
    number, limit = attempt or (0, 0)
    tries = f" (attempt {number}{f' of {limit}' if number <= limit else ''})" if attempt else ""
    if proof.verdict is CheckVerdict.TIMED_OUT:
        return f"Check {proof.check_name} did not end within {seconds} s{tries}."
    code = "" if proof.exit_code in (None, 0) else f" with exit code {proof.exit_code}"
    return f"Check {proof.check_name} failed{code}{tries}."


def build_entry(name: str, verdict: str, output: str) -> dict[str, Any]:
    """Build one entry of an error's `checks`."""
    return {"name": name, "verdict": verdict, "output": output}


def _cut_to_bytes(text: str, limit: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[-limit:].decode(errors="ignore")


_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
_RESULTS = {CheckVerdict.PASSED: "PASSED", CheckVerdict.FLAKY: "WARNED", CheckVerdict.WAIVED: "WARNED"}


def build_statement(proof: Proof) -> dict[str, Any]:
    """Build the statement of one proof: its tree, its definition and its result. Nobody has signed it."""
    result = _RESULTS.get(proof.shown_verdict, "FAILED")
    by_result = {"PASSED": "passedTests", "WARNED": "warnedTests", "FAILED": "failedTests"}
    return {
        "_type": _STATEMENT_TYPE,
        "subject": [
            {
                "name": "inputs",
                "digest": {"sha256": proof.inputs_digest},
                "annotations": {"tree": proof.tree, "head": proof.head, "host": proof.host},
            },
            {"name": "tree", "digest": {"gitTree": proof.tree}},
        ],
        "predicateType": _PREDICATE_TYPE,
        "predicate": {
            "result": result,
            "configuration": [
                {
                    "name": f"{CHECKS_FILE}#{proof.check_name}",
                    "digest": {"sha256": proof.definition_digest},
                    "annotations": _annotate(proof),
                }
            ],
            by_result[result]: [proof.check_name],
        },
    }


def _annotate(proof: Proof) -> dict[str, Any]:
    known = {
        "proof_id": proof.id,
        "verdict": proof.shown_verdict.value,
        "exit_code": proof.exit_code,
        "tests_run": proof.tests_run,
        "tests_skipped": proof.tests_skipped,
        "duration_ms": proof.duration_ms,
        "created_at_ms": proof.created_at,
        "output_sha256": proof.output_digest,
        "waived_by": proof.waived_by,
    }
    return {name: value for name, value in known.items() if value is not None}
