"""One process of the race in `test_race.py`: it changes a plan, decides, or claims, again and again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deepwork.call import Call
from deepwork.config import load_settings
from deepwork.errors import DeepworkError
from deepwork.server.application import Application
from deepwork.server.invocation import invoke


def main(role: str, folder: str, location: str, plan: str, number: int, rounds: int) -> None:
    app = Application(load_settings(Path(folder), {"database": location}, environment={}))
    seen = [line for turn in range(rounds) if (line := act(app, role, plan, f"{number}-{turn}"))]
    app.close()
    print(json.dumps(seen))


def act(app: Application, role: str, plan: str, name: str) -> list[str] | None:
    """Do one thing; return what it approved or passed: the digest of what, and the names of the tasks."""
    try:
        if role == "modify":
            tasks = [{"name": f"task {name}"}]
            invoke_tool(app, "workflow_replan", workflow_id=plan, reason="r", tasks=tasks)
        elif role == "approve":
            return approve(app)
        else:
            return claim(app, plan, name)
    except DeepworkError:
        return None
    return None


def approve(app: Application) -> list[str] | None:
    with app.database.reading() as tx:
        row = tx.fetch_one(
            "SELECT id, digest FROM approvals WHERE status = 'pending' AND subject_kind = 'plan'"
        )
    if row is None:
        return None
    call = Call("human:anna", "give_approval")
    invoke(app.database, app.person_actions["give_approval"], {"approval_id": row["id"]}, call)
    return [row["digest"]]


def claim(app: Application, plan: str, name: str) -> list[str] | None:
    """Claim a task; the plan whose task was handed out is the one that an approval is about."""
    *_, task = invoke_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]
    agent = invoke_tool(app, "agent_register", name=name, runtime="custom")["id"]
    claimed = invoke_tool(app, "task_claim", task_id=task["id"], agent_id=agent)
    if not claimed["success"]:
        return None
    return [task["name"]]


def invoke_tool(app: Application, tool: str, /, **arguments: object) -> dict[str, list[dict[str, str]]]:
    answer: dict[str, list[dict[str, str]]] = invoke(
        app.database, app.registry[tool], arguments, Call("local", tool)
    )
    return answer


if __name__ == "__main__":
    given_role, given_folder, given_location, given_plan, given_number, given_rounds = sys.argv[1:]
    main(given_role, given_folder, given_location, given_plan, int(given_number), int(given_rounds))
