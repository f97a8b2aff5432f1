"""Which commits are linked with the task that made them, when the task ends; on every database."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import call_tool
from deepwork.delivery.provenance.rules import CommitLink
from deepwork.delivery.provenance.store import LinkStore
from deepwork.edge.server.application import Application
from provenance.make import list_verdicts, make_work, start_attempt, verify
from tracking.make import complete_task, create_task, create_workflow_and_phase
from workspaces.make import commit, create_plan, create_repository, run_git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_repository(tmp_path)


def list_links(app: Application, task_id: str) -> list[CommitLink]:
    with app.database.reading() as tx:
        return LinkStore(tx).list_by_tasks([task_id])


def list_commits(app: Application, task_id: str) -> dict[str, bool]:
    """List the commits that are linked with a task, and whether each is only likely its own."""
    return {link.commit_hash: link.is_likely for link in list_links(app, task_id) if link.commit_hash}


def test_commits_of_an_agent_are_linked_with_its_task_and_the_agent(app: Application, project: Path):
    (project / "book.txt").write_text("one\n" * 30)
    commit(project, "Write the book")

    made = make_work(app, project, "dragons", {"l5": "dragons"}, {"l20": "more"})

    links = [link for link in list_links(app, made.task_id) if link.commit_hash]
    assert {link.commit_hash for link in links} == set(made.commits)
    assert {(link.known_by.value, link.agent_id, link.is_likely) for link in links} == {
        ("watched", made.agent_id, False)
    }
    assert all(link.patch_id for link in links)
    assert list_verdicts(app, project, f"main..{made.branch}") == ["verified", "verified"]


def test_commits_of_a_tracked_task_are_linked_with_it(app: Application, project: Path):
    task = create_task(app, create_workflow_and_phase(app))
    made = commit(project, "Build it", b_txt="b\n")

    complete_task(app, task)

    assert list_commits(app, task) == {made: False}
    assert list_verdicts(app, project, made) == ["linked"]


def test_work_that_a_person_commits_later_is_linked_by_its_trees(app: Application, project: Path):
    task = create_task(app, create_workflow_and_phase(app))
    (project / "b.txt").write_text("b\n")
    complete_task(app, task)

    made = commit(project, "Commit what the agent did")

    [found] = verify(app, project, made)
    assert [(match.task_id, match.known_by.value, match.is_likely) for match in found.matches] == [
        (task, "tree", False)
    ]


def test_of_tasks_in_one_tree_each_gets_the_commits_with_its_files(app: Application, project: Path):
    where = create_workflow_and_phase(app)
    docs = create_task(app, where, "docs", areas=["b.txt"])
    code = create_task(app, where, "code", areas=["c.txt"])
    written = commit(project, "Write", b_txt="b\n")
    coded = commit(project, "Code", c_txt="c\n")
    both = commit(project, "Both", b_txt="bb\n", c_txt="cc\n")

    complete_task(app, docs)
    complete_task(app, code)

    assert list_commits(app, docs) == {written: False, both: True}
    assert list_commits(app, code) == {coded: False, both: True}


def test_fetched_commits_are_not_certain_to_be_of_the_task(app: Application, project: Path, tmp_path: Path):
    other = tmp_path / ".deepwork" / "other"
    run_git(project, "worktree", "add", "-q", "-b", "other", str(other))
    task = create_task(app, create_workflow_and_phase(app))
    own = commit(project, "Own", b_txt="b\n")
    elsewhere = commit(other, "Elsewhere", c_txt="c\n")
    run_git(project, "merge", "-q", "-m", "Merge", "other")
    merge = run_git(project, "rev-parse", "HEAD")

    complete_task(app, task)

    assert list_commits(app, task) == {own: False, merge: False, elsewhere: True}


def test_a_second_attempt_gets_only_its_own_commits(app: Application, project: Path):
    workflow, (task,) = create_plan(app, "one")
    first = start_attempt(app, workflow, task)
    failed = commit(project, "First try", b_txt="b\n")
    call_tool(app, "task_release", task_id=task, agent_id=first.agent_id, caller=task)
    with app.database.transaction() as tx:
        tx.execute("UPDATE attempts SET ended_at = 1, stage = 'failed'")
    second = start_attempt(app, workflow, task, 2)
    good = commit(project, "Second try", b_txt="bb\n")
    done = {"status": "completed", "outcome": "Done."}
    call_tool(app, "task_update_status", id=task, agent_id=second.agent_id, caller=task, **done)

    agents = {link.commit_hash: link.agent_id for link in list_links(app, task) if link.commit_hash}
    assert agents == {failed: first.agent_id, good: second.agent_id}
    run_git(project, "reset", "-q", "--soft", "HEAD~2")
    trailers = f"Deepwork-Task: {task}\nDeepwork-Attempt: {second.id}"
    squashed = commit(project, f"Squash both\n\n{trailers}")
    assert list_verdicts(app, project, squashed) == ["verified"]


def test_one_query_finds_the_links_of_many_commits(app: Application, project: Path):
    links = [_make_link(number) for number in range(7_000)]
    with app.database.transaction() as tx:
        LinkStore(tx).add(links)
        LinkStore(tx).add(links[:1])  # once more

    with app.database.reading() as tx:
        found = LinkStore(tx).list_by_commits([link.commit_hash for link in links])

    assert len(found) == 7_000


def _make_link(number: int) -> CommitLink:
    from deepwork.delivery.provenance.rules import KnownBy

    hash = f"{number:040x}"
    return CommitLink(f"tk_{number}", hash, hash, hash, KnownBy.WATCHED, hash)
