"""The rules that end reviews: what blocks, what is late, when a person decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from deepwork.gates.reviews.deltas import FileVersion, build_material, compute_delta
from deepwork.gates.reviews.rounds import (
    MAX_FINDING_TEXT,
    MAX_FINDINGS,
    Finding,
    FindingEffect,
    Material,
    PersonReason,
    ReviewPolicy,
    Round,
    RoundVerdict,
    Severity,
    find_person_reason,
    is_stalled,
    judge_round,
    list_blocking,
    list_open_findings,
    may_call_reviewer,
    may_dispute,
    settle_dispute,
)

POLICY = ReviewPolicy()
EVERYTHING_IS_NEW = Material()
NOTHING_IS_NEW = Material(has_changed=lambda _: False)


def make_finding(claim: str = "It is wrong.", severity: str = "major", **more: Any) -> Finding:
    return Finding(Severity(severity), claim, **more)


def judge(
    earlier: list[Round], *findings: Finding, passed: bool = False, material: Material = EVERYTHING_IS_NEW
) -> Round:
    return judge_round(POLICY, earlier, RoundVerdict(passed, findings), material)


# What blocks


@pytest.mark.parametrize(("severity", "passes"), [("blocker", False), ("major", False), ("minor", True)])
def test_only_findings_of_the_severities_that_block_send_back(severity: str, passes: bool):
    judged = judge([], make_finding(severity=severity))

    assert judged.passed is passes
    assert len(judged.findings) == 1


def test_other_severities_can_block():
    strict = ReviewPolicy(blocks=(Severity.MINOR,))

    assert not judge_round(
        strict, [], RoundVerdict(True, (make_finding(severity="minor"),)), Material()
    ).passed
    assert judge_round(strict, [], RoundVerdict(True, (make_finding(severity="major"),)), Material()).passed


def test_a_failure_without_findings_always_blocks():
    judged = judge([], passed=False)

    assert (judged.passed, judged.fails_anyway, list_blocking(judged)) == (False, True, ())


def test_a_verdict_that_says_passed_does_not_outweigh_a_finding_that_blocks():
    assert not judge([], make_finding(severity="blocker"), passed=True).passed


def test_what_was_not_judged_blocks_even_without_a_finding_that_does():
    verdict = RoundVerdict(True, (make_finding(severity="minor"),), is_complete=False)

    assert not judge_round(POLICY, [], verdict, Material()).passed


# Late findings


def test_a_late_finding_is_recorded_and_does_not_block_unless_it_is_a_blocker():
    first = judge([], make_finding("First."))

    second = judge([first], make_finding("Late."), material=NOTHING_IS_NEW)
    third = judge([first], make_finding("Late.", "blocker"), material=NOTHING_IS_NEW)

    assert (second.passed, second.findings[0].effect) == (True, FindingEffect.LATE)
    assert (third.passed, third.findings[0].effect) == (False, FindingEffect.BLOCKS)


def test_a_finding_that_blocked_before_is_not_late():
    first = judge([], make_finding("Still wrong."))

    second = judge([first], make_finding("still, WRONG"), material=NOTHING_IS_NEW)

    assert second.findings[0].effect is FindingEffect.BLOCKS
    assert find_person_reason(POLICY, [first, second]) is PersonReason.STALLED


def test_late_is_decided_by_the_lines_that_changed():
    old, new = ({"a.py": FileVersion(text, text)} for text in ("one\ntwo\nthree\n", "one\n2\nthree\n"))
    material = build_material(new, compute_delta(old, new))
    findings = [make_finding(f"Line {line}.", file="a.py", line=line) for line in (1, 2, 3)]

    judged = judge([judge([])], *findings, material=material)

    assert {each.line: each.effect for each in judged.findings} == {
        1: FindingEffect.LATE, 2: FindingEffect.BLOCKS, 3: FindingEffect.LATE,
    }  # fmt: skip


# The same problem


def test_a_rephrased_claim_about_the_same_line_is_the_same_problem_wherever_the_line_moved():
    before, after = (
        {"a.py": FileVersion(text, text)} for text in ("x = 1\ny = 2\n", "# new\n\nx = 1\ny = 2\n")
    )
    material = build_material(after, compute_delta(before, after))

    first = judge([], make_finding("x is unused", file="a.py", line=1), material=build_material(before, None))
    second = judge([first], make_finding("drop the variable", file="a.py", line=3), material=material)

    assert first.findings[0].fingerprint == second.findings[0].fingerprint
    assert is_stalled([first, second])


def test_equal_lines_at_two_places_are_two_problems():
    tree = {"a.py": FileVersion("d", "return\nx\nreturn\n")}
    judged = judge(
        [], *(make_finding(file="a.py", line=line) for line in (1, 3)), material=build_material(tree, None)
    )

    assert len({each.fingerprint for each in judged.findings}) == 2


# The end


def test_fewer_findings_are_progress_and_as_many_are_a_stall():
    two = judge([], make_finding("A"), make_finding("B"))
    one = judge([two], make_finding("C"))

    assert find_person_reason(POLICY, [two, one]) is None
    assert find_person_reason(POLICY, [two, judge([two], make_finding("C"), make_finding("D"))]) is (
        PersonReason.STALLED
    )


def test_a_finding_that_comes_back_after_another_is_a_stall():
    many = [make_finding(each) for each in "ABC"]
    first = judge([], *many)
    second = judge([first], make_finding("D"), make_finding("E"))

    assert is_stalled([first, second, judge([first, second], make_finding("A"))])


def test_failures_without_findings_are_no_stall_and_use_up_the_rounds():
    rounds: list[Round] = []
    for _ in range(3):
        rounds.append(judge(rounds))
        assert find_person_reason(ReviewPolicy(rounds=4), rounds) is None

    assert find_person_reason(POLICY, rounds) is PersonReason.USED_UP
    assert find_person_reason(POLICY, rounds, granted=1) is None


def test_a_huge_verdict_is_cut_and_keeps_what_blocks():
    noise = [make_finding("n" * 10_000, "minor", failure="f" * 10_000) for _ in range(1000)]

    judged = judge([], *noise, make_finding("Here."))

    assert (len(judged.findings), judged.findings[0].claim, judged.passed) == (MAX_FINDINGS, "Here.", False)
    assert max(len(each.claim) for each in judged.findings) == MAX_FINDING_TEXT


# Disputes


def test_a_huge_line_or_file_name_is_not_stored_and_still_the_same_problem():
    tree = {"a.py": FileVersion("x", "y" * 1_000_000)}
    findings = [make_finding(claim, file="a.py", line=1) for claim in "AB"]
    first, second = (judge([], each, material=build_material(tree, None)) for each in findings)

    assert len(first.findings[0].fingerprint) <= MAX_FINDING_TEXT
    assert is_stalled([first, second])
    assert len(judge([], make_finding(file="a" * 1_000_000)).findings[0].file or "") == MAX_FINDING_TEXT


def test_a_finding_that_the_second_reviewer_rejects_never_blocks_again():
    first = judge([], make_finding("Right."), make_finding("Wrong."))
    right, wrong = (each.fingerprint for each in first.findings)

    settled = settle_dispute(first, [right, wrong], [right])
    later = judge([settled], make_finding("wrong", "blocker"))

    assert [each.claim for each in list_open_findings([settled])] == ["Right."]
    assert (later.passed, later.findings[0].effect) == (True, FindingEffect.REJECTED)


def test_a_rule_passes_if_no_finding_is_upheld_and_can_be_disputed_once():
    first = judge([], make_finding("Wrong."))
    assert may_dispute([first])

    settled = settle_dispute(first, [first.findings[0].fingerprint], [])

    assert settled.passed
    assert not may_dispute([settled, judge([settled], make_finding("Other."))])


# Whatever the reviewer says

severities = some.sampled_from(list(Severity))
findings = some.builds(
    Finding, severities, some.sampled_from("ABCD"), some.sampled_from([None, "a.py"]), some.just(None)
)
verdicts = some.builds(
    RoundVerdict, some.booleans(), some.lists(findings, max_size=4).map(tuple), some.booleans()
)
answers = some.lists(some.none() | verdicts, min_size=60, max_size=60)  # None: the reviewer fails


@given(
    answers, some.integers(1, 5), some.integers(0, 2), some.lists(some.booleans(), min_size=60, max_size=60)
)
def test_every_sequence_of_verdicts_ends_within_the_bound(
    said: list[RoundVerdict | None], limit: int, granted: int, choices: list[bool]
):
    policy = ReviewPolicy(rounds=limit)
    calls = play(policy, iter(said), granted, iter(choices))

    assert calls <= 2 * (limit + granted + 1)


def play(policy: ReviewPolicy, said: Any, granted: int, choices: Any) -> int:
    """Review, dispute and submit again until the work passes or a person must decide; count the calls."""
    rounds: list[Round] = []
    calls = failures = disputes = 0
    while may_call_reviewer(policy, len(rounds) + failures + disputes, granted):
        answered = [next(said)]
        if answered[0] is None:  # the reviewer is asked once more in the same round
            answered.append(next(said))
        calls += len(answered)
        if answered[-1] is None:
            failures += 1
            continue
        material = EVERYTHING_IS_NEW if next(choices) else NOTHING_IS_NEW
        if may_dispute(rounds) and next(choices):
            disputes += 1
            names = [each.fingerprint for each in list_open_findings(rounds)]
            rounds[-1] = settle_dispute(rounds[-1], names, names[1:])
        else:
            rounds.append(judge_round(policy, rounds, answered[-1], material))
        if rounds[-1].passed or find_person_reason(policy, rounds, granted):
            break
    return calls


def test_the_number_of_a_round_follows_the_one_before():
    first = replace(judge([]), number=7)

    assert judge([first]).number == 8
