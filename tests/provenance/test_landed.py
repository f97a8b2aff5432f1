"""Merge commits of landings are linked with the work that landed, and verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deepwork.delivery.landing.models import Landing, LandingKind
from deepwork.delivery.landing.recorder import link_landed_commit
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.provenance.rules import CommitLink, KnownBy, find_chain
from deepwork.delivery.provenance.store import LinkStore
from deepwork.edge.server.application import Application
from deepwork.kernel.git.merge_commits import CommitFacts
from landing.make import LandingProject
from provenance.make import Made, list_verdicts, verify
from workspaces.make import create_repository, run_git


def test_landings_are_verified_as_made_and_after_a_rebase_of_the_branch(app: Application, tmp_path: Path):
    project = LandingProject(create_repository(tmp_path), app)
    start = run_git(tmp_path, "rev-parse", "HEAD")
    plan = project.plan_done({"one": {"b_txt": "b\n"}, "two": {"c_txt": "c\n"}})
    project.land(workflow_id=plan.id)

    made = verify(app, tmp_path, f"{start}..main")

    by_verdict = {
        verdict: [each.subject for each in made if each.verdict == verdict] for verdict in _VERDICTS
    }
    assert by_verdict == {"verified": ["Land two", "Land one"], "linked": ["two", "one"]}
    merges = [each for each in made if each.verdict == "verified"]
    assert {match.known_by.value for each in merges for match in each.matches} == {"landing"}
    run_git(tmp_path, "switch", "-q", "-c", "moved", start)
    (tmp_path / "d.txt").write_text("d\n")
    run_git(tmp_path, "add", "-A")
    run_git(tmp_path, "commit", "-qm", "Somebody else")
    run_git(tmp_path, "switch", "-q", "-c", "rebased", "main")
    run_git(tmp_path, "rebase", "-q", "--rebase-merges", "moved")
    assert "forged" not in list_verdicts(app, tmp_path, "moved..rebased")
    [task] = [each for each in app.why.explain_commits("main").model_dump()["tasks"] if each["name"] == "two"]
    assert [(landing["status"], landing["target"]) for landing in task["landings"]] == [("landed", "main")]


def test_a_squash_of_several_landings_is_verified_and_names_every_task(app: Application, tmp_path: Path):
    project = LandingProject(create_repository(tmp_path), app)
    start = run_git(tmp_path, "rev-parse", "HEAD")
    plan = project.plan_done({name: {f"{name}_txt": f"{name}\n"} for name in ("one", "two", "three")})
    project.land(workflow_id=plan.id)
    trailers = run_git(tmp_path, "log", "-1", "--format=%(trailers)", "main")

    run_git(tmp_path, "switch", "-q", "-c", "squashed", start)
    run_git(tmp_path, "merge", "-q", "--squash", "main")
    run_git(tmp_path, "commit", "-qm", f"Everything\n\n{trailers}")
    run_git(tmp_path, "switch", "-q", "-c", "more", start)
    run_git(tmp_path, "merge", "-q", "--squash", "main")
    (tmp_path / "own.txt").write_text("not of any task\n")
    run_git(tmp_path, "add", "-A")
    run_git(tmp_path, "commit", "-qm", f"Everything and more\n\n{trailers}")

    [squashed] = verify(app, tmp_path, f"{start}..squashed")
    assert squashed.verdict == "verified"
    assert {match.task_id for match in squashed.matches} == set(plan.ids.values())
    assert list_verdicts(app, tmp_path, f"{start}..more") == ["forged"]


def link(task: str, before: str, tree: str) -> CommitLink:
    return CommitLink(task, "", before, tree, KnownBy.LANDING)


def test_the_shortest_row_of_changes_joins_two_trees_and_a_long_one_does_not():
    links = [link("t1", "A", "B"), link("t2", "B", "C"), link("t3", "A", "X"), link("t4", "X", "B")]
    links += [link("t5", "C", "A")]  # somebody set everything back
    by_end: dict[str, list[CommitLink]] = {}
    for each in links:
        by_end.setdefault(each.tree, []).append(each)

    assert [each.task_id for each in find_chain("A", "C", by_end, 5)] == ["t1", "t2"]
    assert find_chain("A", "C", by_end, 1) == []
    assert find_chain("nowhere", "C", by_end, 50) == []
    assert find_chain("A", "A", by_end, 5) == []


def test_work_that_another_task_merged_in_one_commit_is_still_its_own(work: Made):
    squashed = run_git(work.project, "rev-parse", f"{work.branch}^{{tree}}")
    before = run_git(work.project, "rev-parse", "main^{tree}")
    with work.app.database.transaction() as tx:
        LinkStore(tx).add([link("tk_other", before, squashed)])
    run_git(work.project, "switch", "-q", "-c", "squashed", "main")
    run_git(work.project, "merge", "-q", "--squash", work.branch)
    run_git(work.project, "commit", "-qm", f"Squash\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, "main..squashed") == ["verified"]


def test_undoing_the_work_of_a_task_is_not_its_work(app: Application, tmp_path: Path):
    project = LandingProject(create_repository(tmp_path), app)
    plan = project.plan_done({"one": {"one_txt": "one\n"}})
    project.land(workflow_id=plan.id)
    [landing] = list_landings(app)
    before = {"before": landing.merge_tree or "", "tree": "0" * 40}
    undone = replace(landing, kind=LandingKind.COMMIT)
    with app.database.transaction() as tx:
        link_landed_commit(tx, undone, CommitFacts("1" * 40, parents=(), **before))
        [stored] = LinkStore(tx).list_by_commits(["1" * 40])

    assert (stored.task_id, stored.tree_before) == (plan.ids["one"], "")


def list_landings(app: Application) -> list[Landing]:
    with app.database.reading() as tx:
        return LandingStore(tx).list_newest(workflow_id=None, is_open=False, limit=10)[0]


_VERDICTS = ("verified", "linked")
