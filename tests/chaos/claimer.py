"""Claims one task after another until the plan is done, and records the answers in a file."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DeepworkError

LOOKED_AT = 200
TRIED = 10
"""How many of the listed tasks it tries before it lists again: others take the same ones meanwhile."""

Note = tuple[str, str, str, int]
"""What happened, the task, the agent, the epoch of the claim."""


def claim_all(location: str, workflow_ids: list[str], ledger: str, seed: int, lease_seconds: int) -> int:
    """Work on one plan after another until none is left; return how many tasks were completed.

    Not all begin with the same plan: calls about one plan wait for each other, so that most would only wait.
    """
    app = make_app(Path.cwd(), location, lease_seconds=lease_seconds)
    agent_id = call_tool(app, "agent_register", name=f"claimer {seed}", runtime="custom")["id"]
    chance, done = random.Random(seed), 0
    first = seed % len(workflow_ids)
    with Path(ledger).open("ab", buffering=0) as notes:
        for workflow_id in workflow_ids[first:] + workflow_ids[:first]:
            while (offered := _list_claimable(app, workflow_id)) is not None:
                if not offered:  # others hold the last tasks, or died holding them: their leases will expire
                    time.sleep(0.05)
                for task in chance.sample(offered, min(TRIED, len(offered))):
                    done += _work(app, task["id"], agent_id, notes)
    app.close()
    return done


def hold_and_finish(location: str, task_id: str, lease_seconds: int) -> dict[str, Any]:
    """Claim a task, wait (the test stops this process meanwhile), and complete it afterwards."""
    app = make_app(Path.cwd(), location, lease_seconds=lease_seconds)
    agent_id = _persist(app, "agent_register", f"{task_id}-a", name="sleeper", runtime="custom")["id"]
    claim = _persist(app, "task_claim", f"{task_id}-c", task_id=task_id, agent_id=agent_id)
    Path(f"{task_id}.claimed").write_text(agent_id)
    while not Path(f"{task_id}.wake").exists():
        time.sleep(0.01)
    try:
        call_tool(
            app, "task_update_status", id=task_id, status="completed", outcome="late",
            agent_id=agent_id, claim_epoch=claim["claim_epoch"],
        )  # fmt: skip
    except DeepworkError as error:
        return error.to_dict()
    finally:
        app.close()
    return {"code": "NONE"}


def _persist(app: Application, tool: str, key: str, **arguments: Any) -> Any:
    """Call a tool with a key, and again while the store is busy: on a loaded machine a lock can take minutes."""
    while True:
        try:
            return call_tool(app, tool, key, **arguments)
        except DeepworkError as error:
            if error.code != "STORAGE_ERROR" or not error.recoverable:
                raise


def _list_claimable(app: Application, workflow_id: str) -> list[dict[str, Any]] | None:
    """List the tasks that could be claimed now; None when all are done."""
    found = call_tool(app, "workflow_next_tasks", workflow_id=workflow_id, limit=LOOKED_AT)
    tasks: list[dict[str, Any]] = found["tasks"]
    return None if found["all_complete"] else tasks


def _work(app: Application, task_id: str, agent_id: str, notes: Any) -> int:
    claim = _claim(app, task_id, agent_id)
    if not claim["success"]:
        assert claim["reason"] in {"claimed", "done"}, claim
        _record_note(notes, "refused", task_id, agent_id, 0)
        return 0
    _record_note(notes, "claimed", task_id, agent_id, claim["claim_epoch"])
    try:
        call_tool(
            app, "task_update_status", id=task_id, status="completed", outcome=agent_id,
            agent_id=agent_id, claim_epoch=claim["claim_epoch"],
        )  # fmt: skip
    except DeepworkError as error:
        if error.code != "STALE_CLAIM":  # we were slow and another agent took over, as intended
            raise
        return 0
    _record_note(notes, "completed", task_id, agent_id, claim["claim_epoch"])
    return 1


def _claim(app: Application, task_id: str, agent_id: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call_tool(app, "task_claim", task_id=task_id, agent_id=agent_id)
    except DeepworkError as error:
        if error.code != "INVALID_STATE":  # completed after we listed it
            raise
        return {"success": False, "reason": "done"}
    return answer


def _record_note(notes: Any, what: str, task_id: str, agent_id: str, epoch: int) -> None:
    notes.write(json.dumps([what, task_id, agent_id, epoch]).encode() + b"\n")


def read_notes(folder: Path) -> list[Note]:
    """Read the notes of all claimers; a line that a kill cut short is ignored."""
    lines = (line for file in sorted(folder.glob("*.notes")) for line in file.read_bytes().splitlines())
    return [tuple(json.loads(line)) for line in lines if line.endswith(b"]")]
