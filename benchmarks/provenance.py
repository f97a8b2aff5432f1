"""Measures verifying the provenance of 10,000 commits, beside a plain `git log` of the same commits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.large_plans import open_application
from benchmarks.timing import Effort, Samples, Work, take_turns

from deepwork.delivery.provenance.rules import CommitLink, KnownBy, parse_claims
from deepwork.delivery.provenance.store import LinkStore
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.history import HistoryCommit, list_commits, resolve_range
from deepwork.kernel.git.patches import compute_patch_ids

COMMITS = 10_000
LOG = f"git log --format=%H%n%B ({COMMITS:,} commits)"
VERIFIED = f"verify ({COMMITS:,} commits, half with trailers)"
REBASED = f"verify ({COMMITS:,} commits, 100 of them rebased)"
_REBASED_STEP = COMMITS // 100
_FILES = 200


def measure_verification(effort: Effort) -> Samples:
    """Measure all in turns: every second commit has trailers; for one row the hashes of 100 are not known."""
    root = effort.make_folder("provenance")
    _create_history(root)
    known, rebased = effort.make_folder("provenance-known"), effort.make_folder("provenance-rebased")
    apps = [_open(root, known / "deepwork.db", 0), _open(root, rebased / "deepwork.db", _REBASED_STEP)]
    work: dict[str, Work] = {
        LOG: lambda: _run_log(root),
        VERIFIED: lambda: _verify(apps[0]),
        REBASED: lambda: _verify(apps[1]),
    }
    took = take_turns(work, max(5, effort.rounds))
    for app in apps:
        app.close()
    return took


def _create_history(root: Path) -> None:
    """Write the commits with one process: each changes one of 200 files."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    stream = [_build_commit(number) for number in range(COMMITS + 1)]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=b"".join(stream), check=True)
    subprocess.run(["git", "repack", "-q", "-a", "-d"], cwd=root, check=True)
    # By name, because git takes as long to count 10,000 commits back as to list them.
    subprocess.run(["git", "tag", "start", f"main~{COMMITS}"], cwd=root, check=True)


def _build_commit(number: int) -> bytes:
    body = "What was done, and why it was done in this way, in a few words of prose.\n" * 3
    trailers = f"\nDeepwork-Task: tk_{number}\nDeepwork-Agent: ag_{number}\n" if number % 2 else ""
    message = f"Change number {number}\n\n{body}{trailers}".encode()
    text = "".join(f"line {line} of {number if line == 20 else 0}\n" for line in range(40)).encode()
    return (
        b"commit refs/heads/main\ncommitter Ada <ada@example.org> %d +0000\ndata %d\n%s\nM 100644 inline %s\ndata %d\n%s\n"
        % (
            1_700_000_000 + number,
            len(message),
            message,
            f"folder_{number % 10}/file_{number % _FILES}.txt".encode(),
            len(text),
            text,
        )
    )


def _open(root: Path, store: Path, rebased_step: int) -> Application:
    """Create a store that has the work of all commits with trailers, some of it under other hashes."""
    app, ask = open_application(root, database=str(store))
    ask("agent_list")
    git = Git(root, environment=build_child_environment())
    commits = list_commits(git, resolve_range(git, "start..main"), COMMITS)
    claimed = [commit for commit in commits if parse_claims(commit.message)]
    ids = compute_patch_ids(
        git.at(root, max_output=2**30).run, [each.change for each in claimed if each.change]
    )
    links = [
        _build_link(
            commit, ids[commit.change], is_rebased=bool(rebased_step) and number % (rebased_step // 2) == 0
        )
        for number, commit in enumerate(claimed)
        if commit.change
    ]
    with app.database.transaction() as tx:
        LinkStore(tx).add(links)
        tx.insert_many("plans", [_build_plan_row()])
        tx.insert_many("plan_tasks", [_build_task_row(number, link) for number, link in enumerate(links)])
    return app


def _build_link(commit: HistoryCommit, patch_id: str | None, *, is_rebased: bool) -> CommitLink:
    [claim] = parse_claims(commit.message)
    tree = "0" * 40 if is_rebased else commit.tree
    hash = f"{int(commit.hash, 16) ^ 1:040x}" if is_rebased else commit.hash
    return CommitLink(
        task_id=claim.task_id or "",
        commit_hash=hash,
        tree_before=commit.before or "",
        tree=tree,
        known_by=KnownBy.RUNNER,
        patch_id=patch_id,
        agent_id=claim.agent_id,
    )


def _run_log(root: Path) -> None:
    words = ["git", "log", "--format=%H%n%B", "start..main"]
    subprocess.run(words, cwd=root, check=True, capture_output=True, env={**os.environ, "GIT_PAGER": "cat"})


def _verify(app: Application) -> None:
    found = app.verifier.verify("start..main")
    bad = [each for each in found if each.verdict.fails(is_required=False)]
    if bad or len(found) != COMMITS:
        raise AssertionError(f"{len(bad)} of {len(found)} commits are bad: {bad[:1]}")


def _build_plan_row() -> dict[str, object]:
    texts = ("name", "source_content", "created_by")
    return {
        "id": "wf_1",
        **dict.fromkeys(texts, "x"),
        "source_type": "prompt",
        "status": "completed",
        "max_parallel_tasks": 1,
        "auto_create_workspaces": False,
        "file_conflicts": "warn",
        **dict.fromkeys(("completed_tasks", "completed_ms", "created_at", "updated_at"), 0),
    }


def _build_task_row(number: int, link: CommitLink) -> dict[str, object]:
    return {
        "id": link.task_id,
        "workflow_id": "wf_1",
        "position": number,
        "name": link.task_id,
        "description": "",
        "status": "completed",
        "sequence": 1,
        "is_explicit": False,
        "open_dependencies": 0,
        "context": "{}",
        **dict.fromkeys(("attempts", "checkpoints", "created_at", "updated_at"), 0),
    }
