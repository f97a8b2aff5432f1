"""What happens after an agent's process ended, and who works on a task next."""

from __future__ import annotations

import pytest

from deepwork.delivery.runner.models import (
    FINAL_STAGES,
    Attempt,
    AttemptStage,
    Ended,
    LimitReached,
    Observation,
    ProcessState,
    RunOptions,
    TransientFailure,
)
from deepwork.delivery.runner.rules import (
    MOVES,
    MS_PER_MINUTE,
    Action,
    NextMove,
    add_jitter,
    choose_profile,
    compute_limit_end,
    is_stalled,
    is_using_cpu,
    judge_ending,
)
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.work.plans.models import TaskStatus

NOW = 1_700_000_000_000
OK = Observation(ProcessState.EXITED, code=0, reason="exited")
RED = Observation(ProcessState.EXITED, code=1, reason="exited")


def make_attempt(
    profile: str = "claude", stage: AttemptStage = AttemptStage.RUNNING, *, resumes: int = 0, waits: int = 0
) -> Attempt:
    return Attempt(
        id="at_1",
        run_id="run_1",
        workflow_id="wf_1",
        task_id="t_1",
        number=1,
        profile=profile,
        vendor="claude",
        agent_id="ag_1",
        claim_epoch=1,
        stage=stage,
        host="local",
        created_at=NOW,
        updated_at=NOW,
        resumes=resumes,
        waits=waits,
    )


def judge(
    observed: Observation,
    stream: StreamState | None = None,
    *,
    status: TaskStatus = TaskStatus.IN_PROGRESS,
    attempt: Attempt | None = None,
    options: RunOptions | None = None,
) -> NextMove:
    return judge_ending(
        attempt or make_attempt(), options or RunOptions(), status, observed, stream or StreamState(), NOW
    )


# --- the end of a process


def test_an_exit_without_an_error_only_leads_to_the_checks() -> None:
    assert judge(OK, StreamState(ended=Ended(is_error=False))).action is Action.FINISH


def test_a_result_that_is_an_error_fails_although_the_exit_code_is_0() -> None:
    verdict = judge(OK, StreamState(ended=Ended(is_error=True, text="no way")))

    assert (verdict.action, "no way" in verdict.reason) == (Action.FAIL, True)


@pytest.mark.parametrize("observed", [RED, Observation(ProcessState.VANISHED)])
def test_a_task_that_the_agent_completed_is_done_however_its_process_ended(observed: Observation) -> None:
    assert judge(observed, status=TaskStatus.COMPLETED).action is Action.FINISH


def test_a_task_that_the_agent_reported_as_failed_is_a_failed_attempt() -> None:
    assert judge(OK, status=TaskStatus.FAILED).action is Action.FAIL


def test_an_error_code_is_a_failed_attempt_that_names_the_code() -> None:
    assert judge(RED) == NextMove(Action.FAIL, "It ended with exit code 1.")


@pytest.mark.parametrize(
    "observed",
    [
        Observation(ProcessState.VANISHED),
        Observation(ProcessState.REBOOTED),
        Observation(ProcessState.EXITED, code=-9, reason="exited"),
        Observation(ProcessState.EXITED, code=143, reason="stopped"),
    ],
)
def test_an_interrupted_agent_continues(observed: Observation) -> None:
    assert judge(observed).action is Action.RESUME


def test_an_agent_that_is_interrupted_again_and_again_fails() -> None:
    options = RunOptions(resumes=3)

    verdict = judge(Observation(ProcessState.VANISHED), attempt=make_attempt(resumes=3), options=options)

    assert verdict.action is Action.FAIL


def test_a_failed_request_continues_the_session() -> None:
    assert judge(RED, StreamState(transient=TransientFailure("overloaded"))).action is Action.RESUME


def test_an_agent_that_took_too_long_fails() -> None:
    timeout = Observation(ProcessState.EXITED, code=-15, reason="timeout")

    assert judge(timeout, options=RunOptions(minutes=0.5)).reason == "It ran for more than 0.5 minutes."


# --- limits


def test_a_limit_parks_until_its_reset() -> None:
    stream = StreamState(limit=LimitReached(NOW + 30 * MS_PER_MINUTE, "limit"))

    assert judge(RED, stream) == NextMove(Action.PARK, "limit", NOW + 30 * MS_PER_MINUTE)


def test_a_limit_that_the_agent_got_over_by_itself_does_not_count() -> None:
    stream = StreamState(limit=LimitReached(None, "limit"), ended=Ended(is_error=False))

    assert judge(OK, stream).action is Action.FINISH


def test_a_limit_without_a_reset_is_tried_after_longer_and_longer_waits() -> None:
    minutes = [(compute_limit_end(None, waits, NOW) - NOW) // MS_PER_MINUTE for waits in range(7)]

    assert minutes == [5, 10, 20, 40, 60, 60, 60]


def test_a_reset_in_the_past_is_no_reset() -> None:
    assert compute_limit_end(NOW - 60_000, 0, NOW) == NOW + 5 * MS_PER_MINUTE


def test_a_reset_in_this_minute_is_tried_a_minute_later() -> None:
    """Some vendors name only the minute."""
    assert compute_limit_end(NOW - 59_999, 0, NOW) == NOW + MS_PER_MINUTE


def test_an_agent_whose_session_is_gone_goes_on_in_a_new_one() -> None:
    assert judge(RED, StreamState(is_session_lost=True)).action is Action.RESUME


def test_a_limit_that_ended_while_no_runner_ran_is_over() -> None:
    an_hour_ago = NOW - 60 * MS_PER_MINUTE
    ended = Observation(ProcessState.EXITED, code=1, reason="exited", ended_at=an_hour_ago)
    known = StreamState(limit=LimitReached(NOW - 10 * MS_PER_MINUTE, "limit"))
    unknown = StreamState(limit=LimitReached(None, "limit"))

    assert judge(ended, known) == NextMove(Action.PARK, "limit", NOW)
    assert judge(ended, unknown) == NextMove(Action.PARK, "limit", NOW)


def test_a_limit_that_lasts_too_long_hands_the_task_over() -> None:
    stream = StreamState(limit=LimitReached(NOW + 90 * MS_PER_MINUTE, "limit"))

    assert judge(RED, stream, options=RunOptions(wait_at_limit=60)).action is Action.HAND_OVER


def test_too_many_limits_hand_the_task_over() -> None:
    stream = StreamState(limit=LimitReached(None, "limit"))

    verdict = judge(RED, stream, attempt=make_attempt(resumes=2), options=RunOptions(resumes=2))

    assert verdict.action is Action.HAND_OVER


@pytest.mark.parametrize(("minutes", "most"), [(10, 60_000), (600, 120_000), (0, 0)])
def test_jitter_is_at_most_a_tenth_of_the_wait_and_two_minutes(minutes: int, most: int) -> None:
    end = NOW + minutes * MS_PER_MINUTE

    assert (add_jitter(end, NOW, 0.0), add_jitter(end, NOW, 1.0)) == (end, end + most)


# --- stalls


def test_silence_alone_is_no_stall() -> None:
    late = NOW + 16 * MS_PER_MINUTE

    assert is_stalled(late, NOW, 0, 15)
    assert not is_stalled(late, NOW, 1, 15), "a tool that has not answered may take long"
    assert not is_stalled(NOW + 14 * MS_PER_MINUTE, NOW, 0, 15)


def test_the_little_that_an_agent_uses_while_it_waits_is_no_use_of_the_processor() -> None:
    assert not is_using_cpu(0, 0)
    assert not is_using_cpu(50, 20_000)
    assert is_using_cpu(100, 20_000)
    assert is_using_cpu(10, 0)


# --- chains


def test_each_agent_of_a_chain_tries_as_often_as_the_task_may_fail() -> None:
    chain = ("claude", "codex")
    failed = [make_attempt("claude", AttemptStage.FAILED)] * 2

    assert choose_profile(chain, failed, 3) == "claude"
    assert choose_profile(chain, failed, 2) == "codex"
    assert choose_profile(chain, [*failed, *[make_attempt("codex", AttemptStage.STALLED)] * 2], 2) is None


def test_an_agent_that_handed_over_does_not_get_the_task_again() -> None:
    assert (
        choose_profile(("claude", "codex"), [make_attempt("claude", AttemptStage.HANDED_OVER)], 3) == "codex"
    )


# --- stages


def test_no_move_leads_out_of_a_final_stage_and_each_other_stage_can_end() -> None:
    assert all(not MOVES[stage] for stage in FINAL_STAGES)
    assert all(AttemptStage.STOPPED in MOVES[stage] for stage in AttemptStage if stage not in FINAL_STAGES)
