"""A review that passed is left out until its rule or its files change; on every database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from application import NOW, Clock, ask, events, make_app, told
from deepwork.errors import NotFound
from deepwork.reviews.store import PassedReviews
from deepwork.server.application import Application
from reviews.make import Reviewed, a_rule, ids, names, reviewed


@pytest.fixture
def project(tmp_path: Path) -> Reviewed:
    project = reviewed(
        tmp_path / "project",
        python=a_rule("*.py"),
        together=a_rule("*.md", strategy="matches_together", additional_context={"unchanged_matching_files": True}),
    )  # fmt: skip
    project.commit("old.md")
    project.git("branch", "-f", "main")
    project.write("a.py", "b.py", "new.md")
    return project


@pytest.fixture
def app(project: Reviewed, location: str, clock: Clock) -> Iterator[Application]:
    made = make_app(project.root, location, clock)
    yield made
    made.close()


def asked(app: Application) -> str:
    text = ask(app, "get_review_instructions")
    assert isinstance(text, str)
    return text


def pass_all(app: Application) -> list[str]:
    marked = ids(asked(app))
    for id in marked:
        ask(app, "mark_review_passed", review_id=id)
    return marked


def test_a_review_that_passed_is_left_out_and_counted(app: Application):
    first, *_ = ids(asked(app))

    answer = ask(app, "mark_review_passed", review_id=first)

    assert answer == {"review_id": first, "passed_at": "2027-01-15T08:00:00.000Z"}
    text = asked(app)
    assert names(text) == ["python review of b.py", "together review of new.md"]
    assert text.splitlines()[-1] == (
        "1 review was left out: it passed before, and its rule and files have not changed since."
    )


def test_when_all_have_passed_nothing_is_left(app: Application):
    pass_all(app)

    assert asked(app) == (
        "Nothing is left to review: the 3 reviews that apply have passed, "
        "and the rules and files have not changed since."
    )


def test_it_is_asked_for_again_when_its_file_changes(app: Application, project: Reviewed):
    pass_all(app)
    project.write("a.py", content="otherwise\n")

    assert names(asked(app)) == ["python review of a.py"]


def test_it_is_asked_for_again_when_a_file_to_compare_with_changes(app: Application, project: Reviewed):
    pass_all(app)
    project.stage("old.md", content="otherwise\n")
    project.git("commit", "-q", "-m", "on main")
    project.git("branch", "-f", "main")

    assert names(asked(app)) == ["together review of new.md"]


def test_it_is_asked_for_again_when_the_instructions_of_its_rule_change(app: Application, project: Reviewed):
    pass_all(app)
    project.rules(python=a_rule("*.py", instructions="Look twice."))

    assert names(asked(app)) == ["python review of a.py", "python review of b.py"]


def test_it_stays_passed_when_only_words_around_the_rule_change(app: Application, project: Reviewed):
    pass_all(app)
    project.rules(other=a_rule("*.none"), python=a_rule("*.py", description="Said better."))

    assert "Nothing is left to review: the 2 reviews" in asked(app)


def test_it_stays_passed_when_its_files_are_committed(app: Application, project: Reviewed):
    pass_all(app)
    project.commit()

    assert "Nothing is left to review" in asked(app)


def test_a_review_of_all_changed_files_is_the_same_at_the_second_call(app: Application, project: Reviewed):
    project.rules(all=a_rule(strategy="all_changed_files"))

    [first] = ids(asked(app))
    [second] = ids(asked(app))

    assert first == second


def test_to_pass_twice_is_to_pass_once_and_is_told_once(app: Application, clock: Clock):
    [id, *_] = ids(asked(app))
    first = ask(app, "mark_review_passed", review_id=id)
    clock.advance(seconds=60)

    assert ask(app, "mark_review_passed", review_id=id) == first
    assert told(app) == ["review:passed"]
    [event] = events(app)
    assert event.data == {"review_id": id, "review": "python — a.py"}
    assert event.workflow_id is None


def test_to_pass_many_times_at_once_is_told_once(app: Application):
    [id, *_] = ids(asked(app))

    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: ask(app, "mark_review_passed", review_id=id), range(8)))

    assert all(answer == answers[0] for answer in answers)
    assert told(app) == ["review:passed"]


@pytest.mark.parametrize("id", ["rv_000000000000", "rv_nothing", "../../etc/passwd", "wf_000000000000"])
def test_an_unknown_review_cannot_pass(app: Application, id: str):
    asked(app)

    with pytest.raises(NotFound) as refused:
        ask(app, "mark_review_passed", review_id=id)

    assert refused.value.code == "REVIEW_NOT_FOUND"
    assert told(app) == []


def test_the_memory_can_be_put_aside(app: Application):
    pass_all(app)

    docket = app.reviews.desk.docket(again=True)

    assert (len(docket.reviews), docket.passed) == (3, 0)


def test_of_many_marks_those_that_passed_are_found(app: Application):
    with app.database.transaction() as tx:
        passed = PassedReviews(tx)
        assert passed.remember({"a", "b"}) == 2
        assert passed.remember({"b", "c"}) == 1
        assert passed.among([*"abcdef", *map(str, range(3000))]) == {"a", "b", "c"}
        assert passed.among([]) == set()
        assert passed.passed_at("a") == NOW
        assert passed.passed_at("z") is None
