"""Proofs as in-toto statements (version 1) with the predicate for test results."""

from __future__ import annotations

from typing import Any

from deepwork.gates.checks.models import CHECKS_FILE, CheckVerdict, Proof

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
