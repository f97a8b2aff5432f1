"""A review that passed is left out until its rule or its files change; on every database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.gates.reviews.store import PassedReviews
from deepwork.kernel.errors import NotFound
from reviews.make import ReviewProject, make_project, make_rule_data, parse_ids, parse_names


@pytest.fixture
def project(tmp_path: Path) -> ReviewProject:
    project = make_project(
        tmp_path / "project",
        python=make_rule_data("*.py"),
        together=make_rule_data("*.md", strategy="matches_together", additional_context={"unchanged_matching_files": True}),
    )  # fmt: skip
    project.commit("old.md")
    project.git("branch", "-f", "main")
    project.write("a.py", "b.py", "new.md")
    return project


@pytest.fixture
def app(project: ReviewProject, location: str, clock: Clock) -> Iterator[Application]:
    made = make_app(project.root, location, clock)
    yield made
    made.close()


def get_instructions(app: Application) -> str:
    text = call_tool(app, "get_review_instructions")
    assert isinstance(text, str)
    return text


def pass_all(app: Application) -> list[str]:
    marked = parse_ids(get_instructions(app))
    for id in marked:
        call_tool(app, "mark_review_passed", review_id=id)
    return marked


def test_a_review_that_passed_is_left_out_and_counted(app: Application):
    first, *_ = parse_ids(get_instructions(app))

    answer = call_tool(app, "mark_review_passed", review_id=first)

    assert answer == {"review_id": first, "passed_at": "2027-01-15T08:00:00.000Z"}
    text = get_instructions(app)
    assert parse_names(text) == ["python review of b.py", "together review of new.md"]
    assert text.splitlines()[-1] == (
        "1 review was left out: it passed before, and its rule and files have not changed since."
    )


def test_when_all_reviews_have_passed_nothing_is_left_to_review(app: Application):
    pass_all(app)

    assert get_instructions(app) == (
        "Nothing is left to review: the 3 reviews that apply have passed, "
        "and the rules and files have not changed since."
    )


def test_a_passed_review_is_requested_again_when_its_file_changes(app: Application, project: ReviewProject):
    pass_all(app)
    project.write("a.py", content="otherwise\n")

    assert parse_names(get_instructions(app)) == ["python review of a.py"]


def test_a_passed_review_is_requested_again_when_a_comparison_file_changes(
    app: Application, project: ReviewProject
):
    pass_all(app)
    project.stage("old.md", content="otherwise\n")
    project.git("commit", "-q", "-m", "on main")
    project.git("branch", "-f", "main")

    assert parse_names(get_instructions(app)) == ["together review of new.md"]


def test_a_passed_review_is_requested_again_when_the_instructions_of_its_rule_change(
    app: Application, project: ReviewProject
):
    pass_all(app)
    project.write_rules(python=make_rule_data("*.py", instructions="Look twice."))

    assert parse_names(get_instructions(app)) == ["python review of a.py", "python review of b.py"]


def test_a_review_stays_passed_when_only_the_description_of_its_rule_changes(
    app: Application, project: ReviewProject
):
    pass_all(app)
    project.write_rules(
        other=make_rule_data("*.none"), python=make_rule_data("*.py", description="Said better.")
    )

    assert "Nothing is left to review: the 2 reviews" in get_instructions(app)


def test_a_review_stays_passed_when_its_files_are_committed(app: Application, project: ReviewProject):
    pass_all(app)
    project.commit()

    assert "Nothing is left to review" in get_instructions(app)


def test_a_review_of_all_changed_files_keeps_its_id_on_the_second_call(
    app: Application, project: ReviewProject
):
    project.write_rules(all=make_rule_data(strategy="all_changed_files"))

    [first] = parse_ids(get_instructions(app))
    [second] = parse_ids(get_instructions(app))

    assert first == second


def test_marking_a_review_passed_twice_emits_one_event(app: Application, clock: Clock):
    [id, *_] = parse_ids(get_instructions(app))
    first = call_tool(app, "mark_review_passed", review_id=id)
    clock.advance(seconds=60)

    assert call_tool(app, "mark_review_passed", review_id=id) == first
    assert list_event_types(app) == ["review:passed"]
    [event] = list_events(app)
    assert event.data == {"review_id": id, "review": "python — a.py"}
    assert event.workflow_id is None


@pytest.mark.differs
def test_marking_a_review_passed_concurrently_emits_one_event(app: Application):
    [id, *_] = parse_ids(get_instructions(app))

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: call_tool(app, "mark_review_passed", review_id=id), range(8)))

    assert all(answer == answers[0] for answer in answers)
    assert list_event_types(app) == ["review:passed"]


@pytest.mark.parametrize("id", ["rv_000000000000", "rv_nothing", "../../etc/passwd", "wf_000000000000"])
def test_an_unknown_review_cannot_be_marked_as_passed(app: Application, id: str):
    get_instructions(app)

    with pytest.raises(NotFound) as refused:
        call_tool(app, "mark_review_passed", review_id=id)

    assert refused.value.code == "REVIEW_NOT_FOUND"
    assert list_event_types(app) == []


def test_passed_reviews_can_be_requested_again(app: Application):
    pass_all(app)

    plan = app.reviews.planner.plan(again=True)

    assert (len(plan.reviews), plan.passed) == (3, 0)


def test_passed_reviews_are_found_among_many_ids(app: Application):
    with app.database.transaction() as tx:
        passed = PassedReviews(tx)
        assert passed.save({"a", "b"}) == 2
        assert passed.save({"b", "c"}) == 1
        assert passed.find_passed([*"abcdef", *map(str, range(3000))]) == {"a", "b", "c"}
        assert passed.find_passed([]) == set()
        assert passed.find_passed_at("a") == NOW
        assert passed.find_passed_at("z") is None
