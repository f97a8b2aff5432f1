"""Hooks, filters, fsmonitor and submodules of a repository run nothing during a rewind."""

from __future__ import annotations

from pathlib import Path

from deepwork.edge.server.application import Application
from rewind.make import act, rewind
from workspaces.make import Plan, commit, run_git

_HOOKS = (
    "post-checkout",
    "post-commit",
    "pre-commit",
    "reference-transaction",
    "post-index-change",
    "update",
)


def set_traps(project: Path, alarm: Path) -> None:
    """Let every way to run a program write to a file."""
    script = f"#!/bin/sh\necho $0 >> {alarm}\ncat\n"
    hooks = project / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in _HOOKS:
        (hooks / name).write_text(script)
        (hooks / name).chmod(0o755)
    trap = project / ".git/trap"
    trap.write_text(script)
    trap.chmod(0o755)
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor"):
        run_git(project, "config", key, str(trap))
    for key in ("merge.evil.driver", "diff.evil.textconv", "diff.external", "gpg.program", "core.sshCommand"):
        run_git(project, "config", key, str(trap))
    run_git(project, "config", "commit.gpgSign", "true")


def test_a_hostile_repository_runs_nothing(app: Application, project: Path, tmp_path: Path) -> None:
    alarm = tmp_path.parent / f"{tmp_path.name}-alarm"
    (project / ".gitattributes").write_text("*.txt filter=evil merge=evil diff=evil text eol=crlf\n")
    (project / ".gitmodules").write_text(
        '[submodule "s"]\n\tpath = s\n\turl = ./s\n\tupdate = !touch pwned\n'
    )
    commit(project, "attributes")
    plan = Plan(app, {"api": [], "ui": ["api"]})
    plan.do("api", a_txt="two\n", new_txt="new\n")
    tree = Path(plan.claims["api"]["workspace_path"])
    (tree / "mixed.txt").write_bytes(b"one\r\ntwo\nthree\r\n")
    before = (tree / "mixed.txt").read_bytes()
    plan.claim("ui")
    set_traps(project, alarm)

    done = rewind(app, plan.ids["api"], dependents="reset")
    assert not (tree / "mixed.txt").exists()
    act(app, "undo_rewind", rewind_id=done["id"])

    assert not alarm.exists(), alarm.read_text()
    assert (tree / "mixed.txt").read_bytes() == before
    assert (tree / "new.txt").exists()
    run_git(project, "update-ref", "refs/heads/trap", "HEAD")
    assert alarm.exists(), "the traps work"
    alarm.unlink()
