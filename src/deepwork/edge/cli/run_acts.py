"""What the person at this shell decides about runs, recorded in their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.framework.who_acts import name_person
from deepwork.edge.cli.run_target import JobTarget, PlanTarget
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.errors import NotAllowed

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import Run, RunRequest
    from deepwork.edge.server.application import Application


def start_run(
    app: Application, target: PlanTarget | JobTarget, request: RunRequest, *, is_local: bool = True
) -> Run:
    """Start a run, or join the one that works on the same plan or job; unless local, another engine works."""
    with use_call(Call(name_person(), "run")):
        if isinstance(target, JobTarget):
            if not is_local:
                raise NotAllowed("Only plans can be run with Temporal.", suggestion="Leave out --engine.")
            return app.runner.start_job(f"{target.job}/{target.workflow}", target.goal, request)
        return app.runner.start_plan(target.id, request, is_local=is_local)


def preview_run(
    app: Application, target: PlanTarget | JobTarget, request: RunRequest
) -> list[dict[str, Any]]:
    """List what would be started first."""
    if isinstance(target, JobTarget):
        return app.runner.preview_job(f"{target.job}/{target.workflow}", target.goal, request)
    return app.runner.preview(target.id, request)


def is_plan_done(refused: NotAllowed) -> bool:
    """Return whether a run was refused because its plan is done."""
    from deepwork.delivery.runner.work import PlanDone

    return isinstance(refused, PlanDone)


def decide(app: Application, action: str, run_id: str, **arguments: Any) -> dict[str, Any]:
    """Pause, resume or stop a run; the process that drives it carries that out."""
    from deepwork.edge.server.invocation import invoke

    call = Call(name_person(), action, carries_notices=False)
    answer: dict[str, Any] = invoke(
        app.database, app.operations[action], {"run_id": run_id, **arguments}, call
    )
    return answer
