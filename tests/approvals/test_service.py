"""An approval lets exactly the content pass that a person was shown, once, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from application import Clock, list_event_types, list_events
from approvals.make import PERSON, ask, decide, make_request, read, use
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalRequest, ApprovalStatus
from deepwork.kernel.errors import Code, DeepworkError, GateClosed, NotAllowed

HOUR_MS = 3_600_000


def get_refused(run: Callable[[], Any]) -> GateClosed:
    with pytest.raises(GateClosed) as closed:
        run()
    assert closed.value.code is Code.NEEDS_APPROVAL
    return closed.value


def test_content_passes_after_a_person_approved_it(app: Application) -> None:
    asked = ask(app, make_request(), caller="local")

    decided = decide(app, asked.id, comment="Good.")
    used = use(app, make_request())

    assert (asked.status, asked.asked_by) == (ApprovalStatus.PENDING, "local")
    assert (decided.status, decided.decided_by, decided.method) == ("given", PERSON, "token")
    assert (used.id, used.status) == (asked.id, "used")
    assert list_event_types(app) == ["approval:asked", "approval:given", "approval:used"]
    assert list_events(app)[1].data["digest"] == asked.digest


def test_nothing_passes_before_the_decision(app: Application) -> None:
    asked = ask(app, make_request())

    error = get_refused(lambda: use(app, make_request()))

    assert error.to_dict()["approval"] == {"id": asked.id, "subject": "step:s1/write", "status": "pending"}
    assert error.recoverable


def test_nothing_passes_that_was_never_asked_about(app: Application) -> None:
    error = get_refused(lambda: use(app, make_request()))

    assert "id" not in error.to_dict()["approval"]


def test_asking_again_returns_the_same_request(app: Application) -> None:
    first = ask(app, make_request())

    again = ask(app, make_request(), caller="another")

    assert again == first


def test_other_content_makes_the_request_stale_and_is_asked_about(app: Application) -> None:
    first = ask(app, make_request(text="one"))

    second = ask(app, make_request(text="two"))

    assert second.id != first.id
    assert read(app, first.id).status == "stale"
    with pytest.raises(NotAllowed, match="is stale"):
        decide(app, first.id)


def test_an_approval_does_not_pass_other_content(app: Application) -> None:
    given = decide(app, ask(app, make_request(text="one")).id)

    get_refused(lambda: use(app, make_request(text="two")))
    second = ask(app, make_request(text="two"))

    assert (second.status, read(app, given.id).status) == ("pending", "stale")
    get_refused(lambda: use(app, make_request(text="one")))


def test_an_approval_is_used_once(app: Application) -> None:
    decide(app, ask(app, make_request()).id)
    use(app, make_request())

    get_refused(lambda: use(app, make_request()))
    again = ask(app, make_request())

    assert again.status == "pending"


def test_the_approval_of_a_plan_stays_good_for_its_content(app: Application) -> None:
    request = make_request("plan", "wf_1")
    decide(app, ask(app, request).id)

    passed = [use(app, request), use(app, request)]

    assert [each.status for each in passed] == ["given", "given"]


def test_what_was_refused_is_not_asked_again(app: Application) -> None:
    asked = ask(app, make_request())
    decide(app, asked.id, "refuse", "Too long.")

    again = ask(app, make_request())
    error = get_refused(lambda: use(app, make_request()))

    assert (again.id, again.status, again.comment) == (asked.id, "refused", "Too long.")
    assert "Too long." in error.message
    assert error.to_dict()["approval"]["comment"] == "Too long."


def test_what_was_refused_is_known_after_other_content_was_asked_about(app: Application) -> None:
    refused = decide(app, ask(app, make_request(text="one")).id, "refuse", "No.")
    other = ask(app, make_request(text="two"))

    again = ask(app, make_request(text="one"))

    assert (again.id, again.status) == (refused.id, "refused")
    assert read(app, other.id).status == "stale"


def test_a_person_may_change_their_mind_until_it_is_used(app: Application) -> None:
    asked = ask(app, make_request())

    decide(app, asked.id, "refuse", "No.")
    decide(app, asked.id, "approve", "Yes, after all.")
    decide(app, asked.id, "refuse", "No.")
    get_refused(lambda: use(app, make_request()))
    decide(app, asked.id, "approve")
    use(app, make_request())

    with pytest.raises(NotAllowed, match="is used"):
        decide(app, asked.id, "refuse")


def test_an_approval_expires_by_the_clock_of_the_store(app: Application, clock: Clock) -> None:
    request = ApprovalRequest("step", "s1/write", "s1", {"text": "one"}, lasts_ms=HOUR_MS)  # type: ignore[arg-type]
    asked = ask(app, request)
    clock.advance(seconds=7200)  # waiting does not count
    decide(app, asked.id)
    clock.advance(seconds=3600)

    get_refused(lambda: use(app, request))
    again = ask(app, request)

    assert (again.id != asked.id, again.status) == (True, "pending")
    assert read(app, asked.id).status == "expired"
    assert "approval:expired" in list_event_types(app)


def test_an_approval_is_good_until_it_expires(app: Application, clock: Clock) -> None:
    request = ApprovalRequest("step", "s1/write", "s1", {"text": "one"}, lasts_ms=HOUR_MS)  # type: ignore[arg-type]
    decide(app, ask(app, request).id)
    clock.advance(seconds=3599)

    assert use(app, request).status == "used"


FORGERS = ("local", "anonymous", "anna", "Human:anna", " human:anna", "session:human:anna", "client:human:1")


def test_only_a_person_decides(app: Application) -> None:
    asked = ask(app, make_request())

    for forger in FORGERS:
        with pytest.raises(DeepworkError) as refused:
            decide(app, asked.id, by=forger)
        assert refused.value.code is Code.UNAUTHORIZED

    assert read(app, asked.id).status == "pending"
    get_refused(lambda: use(app, make_request()))


KINDS = ("plan", "task_before", "task", "step", "guarded", "budget")
SHOWN = {"name": "write", "number": 1, "flag": True, "list": ["a"], "none": None}
TAMPERED: list[dict[str, Any]] = [
    {**SHOWN, "name": "other"},
    {**SHOWN, "name": "write\u200b"},
    {**SHOWN, "number": 2},
    {**SHOWN, "flag": 1},
    {**SHOWN, "list": ["a", "b"]},
    {**SHOWN, "list": []},
    {name: value for name, value in SHOWN.items() if name != "none"},
    {**SHOWN, "more": ""},
]


def test_any_other_value_is_other_content(app: Application) -> None:
    for kind in KINDS:
        decide(app, ask(app, make_request(kind, "x", **SHOWN)).id)

        for tampered in TAMPERED:
            get_refused(lambda kind=kind, shown=tampered: use(app, make_request(kind, "x", **shown)))  # type: ignore[misc]
        get_refused(lambda kind=kind: use(app, make_request(kind, "y", **SHOWN)))  # type: ignore[misc]

        reordered = dict(reversed(SHOWN.items()))
        assert use(app, make_request(kind, "x", **reordered)).shown == SHOWN
