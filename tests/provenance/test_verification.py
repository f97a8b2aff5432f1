"""Which trailers are true: after honest rewriting of history, and after forgery."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.errors import InvalidInput
from provenance.make import Made, build_trailers, commit_all, edit_lines, list_verdicts, verify
from workspaces.make import run_git


def start_branch(work: Made, name: str, at: str = "main") -> None:
    run_git(work.project, "switch", "-q", "-c", name, at)


def advance(work: Made, **lines: str) -> None:
    """Commit a change of somebody else."""
    edit_lines(work.project, **lines)
    commit_all(work.project, "Change something else")


def list_problems(work: Made, wanted: str) -> list[str]:
    return [problem for each in verify(work.app, work.project, wanted) for problem in each.problems]


# Honest


def test_commits_are_verified_as_they_were_made(work: Made):
    assert list_verdicts(work.app, work.project, f"main..{work.branch}") == ["verified", "verified"]


def test_rebased_commits_are_verified_although_lines_around_them_changed(work: Made):
    start_branch(work, "target-1")
    advance(work, l3="unrelated", l7="unrelated", l22="unrelated")
    start_branch(work, "rebased", work.branch)

    run_git(work.project, "rebase", "-q", "target-1")

    assert list_verdicts(work.app, work.project, "target-1..rebased") == ["verified", "verified"]
    found = verify(work.app, work.project, "target-1..rebased")
    assert {match.known_by.value for each in found for match in each.matches} == {"patch_id"}


def test_cherry_picked_commits_are_verified(work: Made):
    start_branch(work, "picking")
    advance(work, l40="unrelated")

    run_git(work.project, "cherry-pick", "-x", work.commits[1])

    assert list_verdicts(work.app, work.project, "picking~1..picking") == ["verified"]


def test_an_amended_message_keeps_a_commit_verified(work: Made):
    start_branch(work, "amended", work.branch)

    run_git(work.project, "commit", "-q", "--amend", "-m", f"Other words\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, "amended~1..amended") == ["verified"]


def test_a_squash_of_a_task_is_verified_where_it_was_made_and_elsewhere(work: Made):
    start_branch(work, "squashed-here")
    run_git(work.project, "merge", "-q", "--squash", work.branch)
    run_git(work.project, "commit", "-qm", f"Squash\n\n{work.trailers}")
    start_branch(work, "squashed-elsewhere")
    advance(work, l40="unrelated")
    run_git(work.project, "merge", "-q", "--squash", work.branch)
    run_git(work.project, "commit", "-qm", f"Squash\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, "main..squashed-here") == ["verified"]
    assert list_verdicts(work.app, work.project, "squashed-elsewhere~1..squashed-elsewhere") == ["verified"]


def test_a_merge_of_work_is_verified_if_it_adds_nothing(work: Made):
    start_branch(work, "merged")
    advance(work, l40="unrelated")
    run_git(work.project, "merge", "-q", "--no-ff", "-m", f"Merge\n\n{work.trailers}", work.branch)
    start_branch(work, "merged-with-more", "merged~1")
    run_git(work.project, "merge", "-q", "--no-ff", "--no-commit", work.branch)
    edit_lines(work.project, l10="a back door")
    commit_all(work.project, f"Merge\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, f"{work.branch}..merged")[0] == "verified"
    assert list_verdicts(work.app, work.project, f"{work.branch}..merged-with-more")[0] == "forged"


def test_an_octopus_merge_is_verified_with_the_trailers_of_all_its_tasks(work: Made, other: Made):
    start_branch(work, "octopus")
    advance(work, l40="unrelated")

    message = f"Merge both\n\n{work.trailers}\n{other.trailers}"
    run_git(work.project, "merge", "-q", "-m", message, work.branch, other.branch)

    [merge, *merged] = verify(work.app, work.project, "octopus~1..octopus")
    assert (merge.verdict.value, len(merge.claims)) == ("verified", 2)
    assert [each.verdict.value for each in merged] == ["verified"] * 3


# Forged


def forge(work: Made, name: str, trailers: str, **lines: str) -> str:
    start_branch(work, name)
    edit_lines(work.project, **(lines or {"l12": f"forged in {name}"}))
    commit_all(work.project, f"Forged\n\n{trailers}")
    return f"{name}~1..{name}"


def test_trailers_copied_to_other_content_are_forged(work: Made):
    wanted = forge(work, "copied", work.trailers)

    assert list_verdicts(work.app, work.project, wanted) == ["forged"]
    assert list_problems(work, wanted) == [
        f"It has neither the tree nor the patch id of anything that attempt {work.attempt_id} made."
    ]


def test_the_same_lines_with_other_white_space_are_forged(work: Made):
    assert list_verdicts(work.app, work.project, forge(work, "indented", work.trailers, l5="  dragons")) == [
        "forged"
    ]


def test_the_same_lines_in_another_place_are_forged(work: Made):
    assert list_verdicts(work.app, work.project, forge(work, "moved", work.trailers, l6="dragons")) == [
        "forged"
    ]


def test_a_trailer_that_names_another_attempt_is_forged(work: Made, other: Made):
    start_branch(work, "other-attempt")
    run_git(work.project, "cherry-pick", work.commits[0])
    mixed = build_trailers(work.task_id, other.attempt_id, work.agent_id)
    run_git(work.project, "commit", "-q", "--amend", "-m", f"Forged\n\n{mixed}")

    assert list_problems(work, "main..other-attempt") == [
        f"Attempt {other.attempt_id} was made at task {other.task_id}, not at '{work.task_id}'."
    ]


def test_work_of_one_task_in_the_name_of_another_is_forged_and_its_maker_is_named(work: Made, other: Made):
    start_branch(work, "other-task")
    run_git(work.project, "cherry-pick", work.commits[0])
    run_git(work.project, "commit", "-q", "--amend", "-m", f"Forged\n\n{other.trailers}")

    [problem] = list_problems(work, "main..other-task")
    assert problem.endswith(f"It is the work of {work.task_id}.")


def test_an_agent_that_names_another_agent_is_found(work: Made, other: Made):
    start_branch(work, "other-agent")
    run_git(work.project, "cherry-pick", work.commits[0])
    mixed = build_trailers(work.task_id, work.attempt_id, other.agent_id)
    run_git(work.project, "commit", "-q", "--amend", "-m", f"Forged\n\n{mixed}")

    [problem] = list_problems(work, "main..other-agent")
    assert f"was made by agent {work.agent_id}, not by" in problem


@pytest.mark.parametrize(
    ("trailers", "problem"),
    [
        ("Deepwork-Task: tk_000000000000", "There is no task 'tk_000000000000' in this store."),
        ("Deepwork-Attempt: at_000000000000", "There is no attempt 'at_000000000000' in this store."),
        ("Deepwork-Session: abcdefgh\nDeepwork-Step: a", "There is no task 'abcdefgh/a' in this store."),
        ("Deepwork-Agent: ag_000000000000", "Its trailers name no task and no attempt."),
    ],
)
def test_trailers_of_another_store_are_forged(work: Made, trailers: str, problem: str):
    name = f"store-{trailers[9:13]}"

    assert list_problems(work, forge(work, name, trailers)) == [problem]


def test_the_tree_of_a_task_on_another_base_undoes_work_of_others_and_is_forged(work: Made):
    start_branch(work, "undoing")
    advance(work, l35="a fix of somebody else")
    tree = run_git(work.project, "rev-parse", f"{work.branch}^{{tree}}")
    made = run_git(work.project, "commit-tree", tree, "-p", "undoing", "-m", f"Forged\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, f"undoing..{made}") == ["forged"]


def test_a_revert_with_the_trailers_of_the_work_is_forged(work: Made):
    start_branch(work, "reverting", work.branch)
    run_git(work.project, "revert", "--no-commit", "HEAD")
    run_git(work.project, "commit", "-qm", f"Revert\n\n{work.trailers}")

    assert list_verdicts(work.app, work.project, "reverting~1..reverting") == ["forged"]


# Ranges


def test_commits_without_trailers_are_listed_as_unlinked(work: Made):
    assert list_verdicts(work.app, work.project, "main~1..main", is_required=True) == ["unlinked"]


def test_a_shallow_clone_says_that_it_cannot_compare(work: Made, tmp_path: Path):
    start_branch(work, "deep")
    advance(work, l40="unrelated")
    run_git(work.project, "cherry-pick", work.commits[0])
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", "--depth=1", "--branch=deep", f"file://{work.project}", str(clone))

    assert list_verdicts(work.app, clone, "HEAD") == ["unverifiable"]
    run_git(clone, "fetch", "-q", "--deepen=1")
    assert list_verdicts(work.app, clone, "HEAD") == ["verified"]


def test_a_shallow_clone_verifies_the_commits_that_it_has(work: Made, tmp_path: Path):
    clone = tmp_path / "clone"
    run_git(
        tmp_path, "clone", "-q", "--depth=1", f"--branch={work.branch}", f"file://{work.project}", str(clone)
    )

    assert list_verdicts(work.app, clone, "HEAD") == ["verified"]


@pytest.mark.parametrize("wanted", ["--output=x", "-p", "main...HEAD", "nothing", "main..--all", ""])
def test_what_is_not_a_range_is_refused_and_no_option_of_git(work: Made, wanted: str):
    with pytest.raises(InvalidInput):
        verify(work.app, work.project, wanted)

    assert not (work.project / "x").exists()
