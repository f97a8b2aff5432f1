"""Lands many tasks with a process that kills itself before or after a chosen step, and starts again.

A step is a program of git or a commit of the store: between two steps nothing that lasts happens. Whatever step
it was, the branch is at an old commit or at a new one, and landing again goes on.

    kills.py FOLDER LOCATION PLAN_ID SEED KILLS|FIRST:STRIDE
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from application import Clock, make_app
from deepwork.delivery.landing.service import LandRequest
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.approvals.models import Approval, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.git.command import Git

IMPORTED_ONCE = (
    "deepwork.gates.checks.service",
    "deepwork.kernel.database.postgres",
    "deepwork.kernel.database.sqlite",
    "deepwork.delivery.runner.finishing",
    "deepwork.edge.server.assembly.delivery",
)
"""By the process that forks, and not again by each of the others."""
MAX_STEPS = 90
"""More steps than a batch has."""
A_LEASE = 1000.0


class Steps:
    """Counts steps, and kills this process at the chosen one."""

    def __init__(self, deadly: int) -> None:
        self._left = deadly

    def take(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def surround(self, kind: type, name: str) -> None:
        """Take a step before and after each call of a method."""
        method: Callable[..., Any] = getattr(kind, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.take()
            result = method(*arguments, **named)
            self.take()
            return result

        setattr(kind, name, counted)


def land(folder: Path, location: str, plan: str, deadly: int, clock: Clock) -> None:
    """Land the plan; killed at this step, or never if it is 0."""
    app = make_app(folder, location, clock)
    if deadly:
        steps = Steps(deadly)
        steps.surround(Git, "_run_bounded")
        steps.surround(Database, "record_changes")
        steps.surround(Database, "announce_changes")
    with use_call(Call("human:ada", "land_work", patience=None)):
        app.landings.service.land(LandRequest(plan))
    approve_all(app, plan)
    app.close()


def approve_all(app: Application, plan: str) -> None:
    """Approve what waits for a person, as they do: the landings continue then, and the next may be asked."""
    while waiting := list_waiting(app, plan):
        call = Call("human:ada", "give_approval")
        invoke(app.database, app.operations[call.tool], {"approval_id": waiting[0].id}, call)


def list_waiting(app: Application, plan: str) -> list[Approval]:
    with app.database.reading() as tx:
        wanted = [ApprovalStatus.PENDING]
        return ApprovalStore(tx).list_matching(statuses=wanted, workflow_id=plan, limit=100)[0]


def read_history(folder: Path) -> list[tuple[str, str, int]]:
    """Return commit, subject and number of parents of the first-parent history of main, the oldest first."""
    words = ["git", "log", "--first-parent", "--reverse", "--format=%H%x00%s%x00%P", "main"]
    listed = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
    rows = [line.split("\0") for line in listed.splitlines()]
    return [(commit, subject, len(parents.split())) for commit, subject, parents in rows]


def list_faults(before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]) -> list[str]:
    """List what a kill spoilt: history is only added to, by merge commits, each task once."""
    added = after[len(before) :]
    landed = [subject for _, subject, _ in after if subject.startswith("Land ")]
    faults = ["damaged: history of main was rewritten"] * (after[: len(before)] != before)
    faults += [f"damaged: {subject} has {count} parents" for _, subject, count in added if count != 2]
    return faults + [f"doubled: {subject}" for subject in set(landed) if landed.count(subject) > 1]


def kill_often(folder: Path, location: str, plan: str, choices: list[int]) -> dict[str, Any]:
    """Land in processes of which each is killed at its step; then once to the end."""
    clock, kills, faults = Clock(), 0, []
    for deadly in [*choices, 0]:
        before = read_history(folder)
        clock.advance(seconds=A_LEASE)  # the lease of the process before is over
        child = os.fork()
        if child == 0:
            land(folder, location, plan, deadly, clock)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        kills += was_killed
        if not was_killed and status:
            faults.append(f"internal error: the process ended with {status} at step {deadly}")
        faults += list_faults(before, read_history(folder))
        if deadly and not was_killed:  # everything has landed: nothing is left to be killed at
            break
    return {"kills": kills, "faults": faults}


def main() -> None:
    folder, location, plan, seed, wanted = sys.argv[1:]
    draw = random.Random(int(seed))
    first, is_list, stride = wanted.partition(":")
    if is_list:
        choices = list(range(int(first), MAX_STEPS, int(stride)))
    else:
        choices = [draw.randrange(1, MAX_STEPS) for _ in range(int(wanted))]
    for module in IMPORTED_ONCE:
        import_module(module)
    print(json.dumps(kill_often(Path(folder), location, plan, choices)))


def start_kills(folder: Path, location: str, plan: str, seed: int, kills: int | str) -> dict[str, Any]:
    """Run this module as a process of its own, which forks: it has no threads and no open store."""
    words = [sys.executable, __file__, str(folder), location, plan, str(seed), str(kills)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
