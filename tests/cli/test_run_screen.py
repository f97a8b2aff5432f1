"""The screen of a run, as a function of its state; and what its lines say."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.run_states import MINUTE, NOW, make_attempt, make_run, make_state
from deepwork.delivery.runner.models import TIME_IS_OVER, AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.responses import build_payload, describe_attempt, describe_run
from deepwork.edge.cli.framework.tables import measure_width
from deepwork.edge.cli.run.options import parse_moment
from deepwork.edge.cli.run.outputs import EventLines, belongs_to, build_event_object, build_state_objects
from deepwork.edge.cli.run.rendering import (
    choose_exit_code,
    format_cost,
    format_countdown,
    format_duration,
    format_tokens,
    name_agent,
    render_screen,
    render_summary,
)
from deepwork.kernel.events.log import Event

HOSTILE = "\x1b[2J\x07evil\r\n\u202e"


def render(*attempts, width=100, height=24, **changes) -> list[str]:
    return [line.text for line in render_screen(make_state(*attempts, **changes), width, height)]


def make_event(type: str, data: dict[str, Any], workflow_id: str | None = "wf_1") -> Event:
    return Event(seq=7, ts="2026-11-17T20:31:07.000Z", type=type, data=data, workflow_id=workflow_id)


def test_a_line_for_each_agent_says_what_it_is_in_and_what_it_used():
    attempt = make_attempt(now_doing="Bash: pytest -q", input_tokens=84_000, usd_micros=420_000)

    lines = render(attempt, progress={"completed": 4, "in_progress": 1, "failed": 1, "pending": 3}, usd=3.2)

    assert lines == [
        "Login  run_1",
        "  Write the form  claude  running        12 min     84k    $0.42  Bash: pytest -q",
        "█████████████░░░░░░░░░░░░░░░░░  4 of 9 tasks  1 failed  $3.20",
        "Ctrl-C leaves the agents running; twice stops them.",
    ]


def test_a_parked_agent_counts_down_and_says_why():
    attempt = make_attempt(
        AttemptStage.PARKED,
        parked_for=ParkedFor.LIMIT,
        not_before=NOW + 83 * MINUTE + 5000,
        reason="5-hour limit",
    )
    at = f"{datetime.fromtimestamp((NOW + 83 * MINUTE + 5000) / 1000).astimezone():%H:%M}"

    line = render(attempt, width=140)[1]

    assert line.endswith(f"limit, goes on in 1:23:05 (at {at}): 5-hour limit")


def test_an_agent_that_waits_for_a_person_has_no_countdown():
    attempt = make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.PERSON, reason="May I?")

    assert render(attempt)[1].endswith("waits for you: May I?")


def test_the_budget_and_the_end_of_the_run_are_shown():
    options = {"max_usd": 20.0, "until": NOW + 60 * MINUTE}

    bar = render(run={"options": options}, usd=3.2, progress={"pending": 2})[2]

    assert "0 of 2 tasks  $3.20 of $20.00  until " in bar


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RunStatus.PAUSED, "nothing new starts"),
        (RunStatus.STOPPING, "stopping"),
        (RunStatus.ENDING, "ending"),
    ],
)
def test_the_heading_says_if_the_run_was_paused_or_stopped(status: RunStatus, said: str):
    assert said in render(status=status)[0]


def test_agents_that_do_not_fit_are_counted():
    attempts = [make_attempt(id=f"at_{number}") for number in range(30)]

    lines = render(*attempts, height=10)

    assert len(lines) <= 9
    assert lines[-3] == "  and 25 more agents"


def test_a_job_has_steps():
    lines = render(
        make_attempt(task_id="ab12cd34/write"), run={"workflow_id": None, "job": "report/full"},
        progress={"completed": 1, "in_progress": 1},
    )  # fmt: skip

    assert lines[1].startswith("  write  claude")
    assert "1 of 2 steps" in lines[2]


def test_a_notice_replaces_the_hint():
    lines = render_screen(make_state(), 80, 24, hint="Leaving.")

    assert lines[-1].text == "Leaving."


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=60),
    st.text(max_size=60),
    st.integers(1, 200),
    st.integers(1, 30),
    st.integers(0, 12),
    st.sampled_from([stage for stage in AttemptStage if not stage.is_final]),
)
def test_no_state_draws_outside_the_screen_or_controls_it(
    name: str, doing: str, width: int, height: int, agents: int, stage: AttemptStage
):
    attempts = [make_attempt(stage, now_doing=doing, reason=doing, profile=name or "x")] * agents
    state = make_state(*attempts, task_names={"tk_1": name}, progress={"pending": 3})

    lines = render_screen(state, width, height)

    assert len(lines) <= max(height, 5)
    assert all(measure_width(line.text) <= max(width, 20) - 1 for line in lines)
    assert not any(unicodedata.category(each) == "Cc" for line in lines for each in line.text)


def test_amounts_are_short():
    assert [format_duration(each) for each in (-5, 35_000, 12 * MINUTE, 185 * MINUTE)] == [
        "0 s", "35 s", "12 min", "3 h 05 min",
    ]  # fmt: skip
    assert [format_countdown(each) for each in (-1, 1, 299_000, 3_899_000)] == [
        "0:00",
        "0:01",
        "4:59",
        "1:04:59",
    ]
    assert [format_tokens(each) for each in (840, 84_900, 1_240_000)] == ["840", "84k", "1.2M"]


def test_a_price_that_is_not_known_is_not_shown_as_free():
    assert format_cost({"tokens": 5, "usd": 0.0}) == "$?"
    assert format_cost({"tokens": 5, "usd": 0.0, "usd_source": "reported"}) == "$0.00"


def test_a_command_line_is_named_by_its_program():
    lines = ("claude", "/opt/agent.sh 1 'x y'", "sh -e /opt/a.sh {prompt_file}", "sh -c", "-x -y", "", " ")

    assert [name_agent(line) for line in lines] == ["claude", "agent.sh", "a.sh", "sh", "-x -y", "", " "]


# Lines of events


def describe(event: Event) -> str | None:
    return EventLines(lambda task: {"tk_1": "Write the form"}.get(task, task)).render(event)


def test_an_attempt_that_has_ended_says_what_it_took():
    ended = make_attempt(
        AttemptStage.FAILED, created_at=NOW - 5 * MINUTE, ended_at=NOW, output_tokens=900, usd_micros=50_000, number=2,
        reason="It ended with exit code 1.",
    )  # fmt: skip

    line = describe(make_event("attempt:ended", build_payload(describe_attempt(ended))))

    assert line == (
        "2026-11-17T20:31:07.000Z  at_1              failed        Write the form, claude, attempt 2,"
        " 5 min, 900 tokens, $0.05, It ended with exit code 1."
    )


def test_of_a_reason_with_many_lines_the_first_is_shown():
    ended = make_attempt(AttemptStage.FAILED, reason="Check t failed.\n\nt:\n1 failed")
    run = build_payload(describe_run(make_run())) | {"status": "paused", "reason": "One.\n\nTwo."}

    lines = [
        describe(make_event("attempt:ended", build_payload(describe_attempt(ended)))),
        describe(make_event("run:updated", run)),
    ]

    assert [
        str(line).endswith(end) for line, end in zip(lines, (", Check t failed.", "  One."), strict=True)
    ] == [True, True]


def test_a_parked_attempt_says_when_it_goes_on():
    parked = make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=NOW)

    line = describe(make_event("attempt:updated", build_payload(describe_attempt(parked))))

    assert line is not None
    assert line.endswith("parked        Write the form, claude, goes on at 2027-01-15T08:00:00.000Z")


def test_progress_and_what_was_said_before_is_not_repeated():
    lines = EventLines(str)
    running = build_payload(describe_attempt(make_attempt()))

    assert lines.render(make_event("attempt:updated", running)) is not None
    assert lines.render(make_event("attempt:updated", running)) is None
    assert lines.render(make_event("attempt:progress", running)) is None


def test_the_state_that_was_shown_first_is_not_repeated():
    lines, started = EventLines(str), build_payload(describe_run(make_run()))
    lines.remember_run(make_state())

    assert lines.render(make_event("run:started", started)) is None
    assert lines.render(make_event("run:updated", started | {"status": "paused"})) is not None


def test_a_task_is_worth_a_line_when_it_has_ended():
    done = describe(make_event("plan_task:updated", {"id": "tk_1", "name": "Form", "status": "completed"}))
    begun = describe(make_event("plan_task:updated", {"id": "tk_1", "name": "Form", "status": "in_progress"}))

    assert done is not None
    assert done.split("  ", 1)[1].split() == ["tk_1", "completed", "Form"]
    assert begun is None


def test_no_text_of_others_controls_the_terminal():
    attempt = make_attempt(profile=HOSTILE, reason=HOSTILE, task_id=HOSTILE)

    line = describe(make_event("attempt:updated", build_payload(describe_attempt(attempt))))

    assert line is not None
    assert line.isprintable()


def test_events_belong_to_their_run():
    run, stored = make_state(), make_run()
    attempt = build_payload(describe_attempt(make_attempt()))

    assert belongs_to(make_event("attempt:updated", attempt), run)
    assert belongs_to(make_event("run:updated", build_payload(describe_run(stored))), run)
    assert belongs_to(make_event("plan_task:updated", {"id": "tk_1"}), run)
    assert not belongs_to(make_event("attempt:updated", attempt | {"run_id": "run_2"}), run)
    assert not belongs_to(make_event("plan_task:updated", {"id": "tk_1"}, "wf_2"), run)
    assert not belongs_to(
        make_event("plan_task:updated", {"id": "tk_1"}, None), make_state(run={"workflow_id": None})
    )
    assert not belongs_to(make_event("agent:registered", {"id": "run_1"}), run)


def test_json_objects_name_their_type_id_and_stage_first():
    attempt = build_payload(describe_attempt(make_attempt()))

    from_event = build_event_object(make_event("attempt:updated", attempt))
    from_state = build_state_objects(make_state(make_attempt()))

    assert (list(from_event)[:2], from_event["stage"], from_event["seq"]) == (["type", "id"], "running", 7)
    assert [each["type"] for each in from_state] == ["run", "attempt"]


# The end


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (RunStatus.DONE, None, 0),
        (RunStatus.NEEDS_PERSON, None, 3),
        (RunStatus.STOPPED, "Stopped by human:ada.", 1),
        (RunStatus.STOPPED, TIME_IS_OVER, 3),
    ],
)
def test_the_exit_code_says_how_the_run_ended(status: RunStatus, reason: str | None, code: int):
    assert choose_exit_code(make_state(status=status, reason=reason)) == code


def test_the_summary_says_what_comes_next():
    needs = list(
        render_summary(make_state(status=RunStatus.NEEDS_PERSON, progress={"failed": 1, "completed": 2}))
    )
    left = list(render_summary(make_state(make_attempt(), is_driven=False)))

    assert needs[0] == "Login: needs you, 2 of 3 tasks done, 1 failed, 1 h 30 min, $0.00"
    assert any(line.startswith("deepwork status") for line in needs)
    assert left[0].startswith("Login: unattended")
    assert any(line.startswith("deepwork runs attach run_1") for line in left)


# Times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("07:00", datetime.fromisoformat("2026-11-18T07:00")),
        ("23:30", datetime.fromisoformat("2026-11-17T23:30")),
        ("7:05", datetime.fromisoformat("2026-11-18T07:05")),
        ("2026-11-19T08:00", datetime.fromisoformat("2026-11-19T08:00")),
        ("2026-11-19 08:00", datetime.fromisoformat("2026-11-19T08:00")),
    ],
)
def test_a_time_of_day_is_the_next_one(text: str, expected: datetime):
    now = datetime.fromisoformat("2026-11-17T22:00")

    assert parse_moment(text, now) == round(expected.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("25:00", "not a time of day"),
        ("12:75", "not a time of day"),
        ("soon", "is not a time"),
        ("", "is not a time"),
    ],
)
def test_other_times_are_refused(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_moment(text, datetime.fromisoformat("2026-11-17T22:00"))
