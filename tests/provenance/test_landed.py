"""Merge commits of landings are linked with the work that landed, and verified."""

from __future__ import annotations

from pathlib import Path

from deepwork.server.application import Application
from landing.make import LandingProject
from provenance.make import list_verdicts, verify
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


_VERDICTS = ("verified", "linked")
