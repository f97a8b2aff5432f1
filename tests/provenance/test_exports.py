"""Commits with their origins in formats of other programs."""

from __future__ import annotations

import json

from click.testing import CliRunner

from dashboard.make import create_client
from deepwork.delivery.provenance.exports import ExportedCommit, build_note, build_statement, build_trace
from deepwork.edge.cli.main import deepwork
from deepwork.kernel.errors import InvalidInput
from provenance.make import Made, build_trailers, commit_all, edit_lines
from workspaces.make import run_git


def export(work: Made, **more: bool) -> list[ExportedCommit]:
    return work.app.why.export_commits(f"main..{work.branch}", **more)


def run(work: Made, *words: str) -> tuple[int, str]:
    place = ("--path", str(work.project), "--db", work.app.settings.database)
    done = CliRunner().invoke(deepwork, [*words, *place])
    return done.exit_code, done.output


def test_a_trace_has_the_lines_that_the_commit_added_and_its_model(work: Made):
    trace = build_trace(export(work)[0], "1.2.3")

    assert trace["vcs"] == {"type": "git", "revision": work.commits[1]}
    assert trace["files"] == [
        {
            "path": "book.txt",
            "conversations": [
                {"contributor": {"type": "ai"}, "ranges": [{"start_line": 20, "end_line": 20}]}
            ],
        }
    ]
    assert trace["id"] == build_trace(export(work)[0], "1.2.3")["id"]


def test_a_statement_is_about_the_commit_and_its_tree(work: Made):
    statement = build_statement(export(work)[0])

    tree = run_git(work.project, "rev-parse", f"{work.branch}^{{tree}}")
    digests = [subject["digest"] for subject in statement["subject"]]
    assert digests == [{"gitCommit": work.commits[1]}, {"gitTree": tree}]
    assert statement["predicate"]["tasks"][0]["id"] == work.task_id


def test_what_was_written_to_agents_is_exported_only_if_it_is_asked_for(work: Made):
    prompt = work.app.settings.state_folder / "runs" / work.attempt_id / "1" / "prompt"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("Write about dragons, secretly.")
    prompt.with_name("stdout").write_text("I did.")

    plain, whole = (
        json.dumps(build_note(export(work, includes_prompts=given)[0])) for given in (False, True)
    )

    private = ("secretly", "Done.", "Ship it.")
    assert [text for text in private if text in plain] == []
    assert [text for text in private if text in whole] == list(private)


def test_notes_are_printed_and_written_only_with_write(work: Made):
    wanted = f"main..{work.branch}"

    code, printed = run(work, "provenance", "export", wanted, "--format", "git-notes")
    assert (code, len(printed.splitlines())) == (0, 2)
    assert run_git(work.project, "for-each-ref", "refs/notes") == ""
    first, _ = run(work, "provenance", "export", wanted, "--format", "git-notes", "--write")
    again, _ = run(work, "provenance", "export", wanted, "--format", "git-notes", "--write")

    assert (first, again) == (0, 0)
    note = run_git(work.project, "notes", "--ref=deepwork", "show", work.commits[0])
    assert json.loads(note)["links"][0]["task_id"] == work.task_id


def test_commands_exit_with_what_they_found(work: Made):
    run_git(work.project, "switch", "-q", "-c", "cli-forged")
    edit_lines(work.project, l9="forged")
    commit_all(work.project, f"Forged\n\n{build_trailers('tk_x', 'at_x', 'ag_x')}")
    run_git(work.project, "switch", "-q", "main")

    assert run(work, "provenance", "verify", f"main..{work.branch}") == (0, "2 commits: 2 verified.\n")
    code, said = run(work, "provenance", "verify", "main..cli-forged", "--json")
    assert (code, json.loads(said)["commits"][0]["verdict"]) == (1, "forged")
    assert run(work, "provenance", "verify", "main", "--require")[0] == 1
    assert run(work, "provenance", "verify", "main")[0] == 0
    assert run(work, "why", work.branch, "--json")[0] == 0
    assert run(work, "why", "main")[0] == 1
    missing = CliRunner().invoke(deepwork, ["why", "gone/book.txt:5", "--path", str(work.project)]).exception
    assert isinstance(missing, InvalidInput)
    assert ("gone/book.txt'" in missing.message, "commit" in missing.message) == (True, False)
    code, said = run(work, "why", "book.txt:5", "--at", work.branch)
    assert code == 0
    assert f"attempt     {work.attempt_id}: codex, model unknown, 1000 tokens, $1.25, done" in said


def test_rest_explains_lines_and_commits_and_refuses_the_rest(work: Made):
    page = create_client(work.app)

    line = page.get("/api/v1/why", params={"path": "book.txt", "line": 5, "commit": work.branch})
    commits = page.get("/api/v1/why", params={"commit": f"main..{work.branch}"})

    assert [each["commit"] for each in line.json()["commits"]] == [work.commits[0]]
    assert [each["commit"] for each in commits.json()["commits"]] == list(reversed(work.commits))
    bad: tuple[dict[str, str], ...] = (
        {},
        {"path": "../x"},
        {"path": "book.txt", "line": "0"},
        {"commit": "--output=x"},
        {"path": "x" * 5000},
        {"path": "book.txt", "other": "1"},
    )
    assert [page.get("/api/v1/why", params=given).status_code for given in bad] == [400] * len(bad)
