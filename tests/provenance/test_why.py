"""Why code exists: from a line, a commit or a range to the task, its goal and everything behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DeepworkError, InvalidInput
from provenance.make import Made, commit_all, edit_lines, make_work
from tracking.make import complete_task, create_task, create_workflow_and_phase
from workspaces.make import commit, create_repository, run_git


def explain(app: Application, path: str, line: int, **more: Any) -> dict[str, Any]:
    return app.why.explain_lines(path, line, line, **more).model_dump()


def list_links(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = [link for commit in answer["commits"] for link in commit["links"]]
    return [(link["task_id"], link["known_by"], link["certainty"]) for link in found]


def test_a_line_leads_to_everything_behind_it(app: Application, tmp_path: Path):
    project = create_repository(tmp_path)
    edit_lines(project)
    commit_all(project, "Write the book")
    made = make_work(app, project, "dragons", {"l5": "dragons"})
    call_tool(
        app,
        "checkpoint_add",
        task_id=made.task_id,
        type="decision",
        summary="Dragons, not unicorns.",
        agent_id=made.agent_id,
    )
    run_git(project, "merge", "-q", made.branch)

    answer = explain(app, "book.txt", 5)

    [origin] = answer["commits"]
    assert (origin["commit"], origin["lines"]) == (made.commits[0], [[5, 5]])
    assert list_links(answer) == [(made.task_id, "watched", "certain")]
    [task] = answer["tasks"]
    assert (task["kind"], task["name"], task["status"], task["outcome"]) == (
        "task", "dragons", "completed", "Done.",
    )  # fmt: skip
    assert task["goal"] == {"kind": "plan", "id": made.workflow_id, "name": "Release", "text": "Ship it."}
    assert [decision["chosen"] for decision in task["decisions"]] == ["Dragons, not unicorns."]
    [attempt] = task["attempts"]
    assert (attempt["id"], attempt["tokens"], attempt["usd"], attempt["made_it"]) == (
        made.attempt_id, 1000, 1.25, True,
    )  # fmt: skip
    assert [agent["id"] for agent in task["agents"]] == [made.agent_id]


def test_a_tracked_task_is_explained_with_its_decisions(app: Application, tmp_path: Path):
    project = create_repository(tmp_path)
    task = create_task(app, create_workflow_and_phase(app))
    call_tool(
        app,
        "log_decision",
        task_id=task,
        category="architecture",
        question="Which file?",
        options_considered=["b.txt"],
        chosen="b.txt",
        reasoning="It is short.",
    )
    made = commit(project, "Build it", b_txt="b\n")
    complete_task(app, task)

    answer = app.why.explain_commits(made).model_dump()

    assert list_links(answer) == [(task, "watched", "certain")]
    [chain] = answer["tasks"]
    assert (chain["kind"], chain["goal"]["text"], chain["outcome"]) == ("tracked_task", "Ship it.", "Done.")
    assert [(each["question"], each["chosen"]) for each in chain["decisions"]] == [("Which file?", "b.txt")]
    assert chain["agents"] == [{"id": "Ada", "name": "Ada"}]


def test_a_renamed_file_is_followed_to_the_commit_that_wrote_the_line(work: Made):
    run_git(work.project, "switch", "-q", "-c", "renamed", work.branch)
    run_git(work.project, "mv", "book.txt", "novel.txt")
    commit_all(work.project, "Rename the book")

    answer = explain(work.app, "novel.txt", 5)

    [origin] = answer["commits"]
    assert (origin["commit"], origin["path"]) == (work.commits[0], "book.txt")
    run_git(work.project, "switch", "-q", "main")


def test_a_file_is_explained_as_it_is_in_a_commit(work: Made):
    answer = explain(work.app, "book.txt", 20, commit=work.branch)

    assert [origin["commit"] for origin in answer["commits"]] == [work.commits[1]]


def test_a_rebased_commit_without_trailers_is_likely_the_work_of_the_task(work: Made):
    run_git(work.project, "switch", "-q", "-c", "why-rebased")
    edit_lines(work.project, l40="unrelated")
    commit_all(work.project, "Change something else")
    run_git(work.project, "cherry-pick", work.commits[0])
    run_git(work.project, "commit", "-q", "--amend", "-m", "No trailers")

    answer = work.app.why.explain_commits("why-rebased").model_dump()

    assert list_links(answer) == [(work.task_id, "patch_id", "likely")]
    run_git(work.project, "switch", "-q", "main")


def test_a_trailer_on_other_content_is_shown_as_likely_with_the_problem(work: Made):
    run_git(work.project, "switch", "-q", "-c", "why-copied")
    edit_lines(work.project, l11="something else")
    commit_all(work.project, f"Copied\n\n{work.trailers}")

    answer = work.app.why.explain_commits("why-copied").model_dump()

    assert list_links(answer) == [(work.task_id, "trailer", "likely")]
    assert answer["commits"][0]["problems"]
    run_git(work.project, "switch", "-q", "main")


def test_what_is_not_known_is_said(work: Made):
    answer = work.app.why.explain_commits("main").model_dump()

    assert (answer["tasks"], answer["commits"][0]["links"]) == ([], [])
    assert answer["commits"][0]["note"] == "No task of this store is known to have made this commit."


def test_lines_that_are_not_committed_are_said_to_be(work: Made):
    edit_lines(work.project, l2="not committed")

    answer = work.app.why.explain_lines("book.txt", 1, 3).model_dump()

    assert answer["uncommitted"] == [[2, 2]]
    run_git(work.project, "checkout", "-q", "book.txt")


def test_a_range_lists_each_commit(work: Made):
    answer = work.app.why.explain_commits(f"main..{work.branch}").model_dump()

    assert [origin["commit"] for origin in answer["commits"]] == list(reversed(work.commits))
    assert [task["id"] for task in answer["tasks"]] == [work.task_id]


@pytest.mark.parametrize(
    ("path", "commit"),
    [
        ("../outside", None),
        ("/etc/passwd", None),
        ("--output=x", None),
        ("nothing.txt", None),
        ("a\0b", None),
        ("../outside", "main"),
        ("--output=x", "main"),
        ("book.txt", "--output=x"),
        ("book.txt", "main..main"),
    ],
)
def test_paths_outside_and_options_of_git_are_refused(work: Made, path: str, commit: str | None):
    with pytest.raises(DeepworkError):
        explain(work.app, path, 1, commit=commit)

    assert not (work.project / "x").exists()


def test_a_line_that_the_file_does_not_have_is_refused(work: Made):
    with pytest.raises(InvalidInput, match="has fewer than 99 lines"):
        explain(work.app, "book.txt", 99)


def test_a_list_of_commits_to_skip_that_the_repository_names_has_no_effect(work: Made):
    skipped = work.project / ".deepwork" / "skipped"
    skipped.write_text(f"{work.commits[0]}\n")
    run_git(work.project, "config", "blame.ignoreRevsFile", str(skipped))

    answer = explain(work.app, "book.txt", 5, commit=work.branch)

    assert [origin["commit"] for origin in answer["commits"]] == [work.commits[0]]
    run_git(work.project, "config", "--unset", "blame.ignoreRevsFile")


def test_a_shallow_clone_says_that_lines_may_be_older(work: Made, tmp_path: Path):
    from application import make_app

    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", "--depth=1", f"file://{work.project}", str(clone))
    app = make_app(clone, work.app.settings.database)

    answer = explain(app, "book.txt", 1)

    assert "the history is cut off" in answer["commits"][0]["note"].lower()
    app.close()


def test_a_file_may_have_any_letters_in_its_name(app: Application, tmp_path: Path):
    project = create_repository(tmp_path)
    name = 'données/Grüße "日本".txt'
    (project / "données").mkdir()
    (project / name).write_text("a\n")
    commit_all(project, "Write it")
    run_git(project, "mv", name, "données/neu.txt")
    commit_all(project, "Rename it")

    before = explain(app, "données/neu.txt", 1)["commits"]
    same = explain(app, name, 1, commit="HEAD^")["commits"]

    assert [each.get("path") for each in (*before, *same)] == [name, None]
