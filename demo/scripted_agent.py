"""An agent without a model: it plays the command line of Claude Code, as a script says.

It plans, reviews and works. The task "Rates" is reported as done while it is not, "Checkout" meets a usage limit once, and
the agent of "Model" kills itself once. Started again in the same session, these finish. Every other task just writes its file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

RESET_SECONDS = 3
PLAN = {
    "summary": "Amounts get a currency, rates are fetched once a day, and checkout shows both.",
    "assumptions": ["Dollars and euros are enough."],
    "tasks": [
        ("Model", "money with a currency", []),
        ("Rates", "daily rates, cached", []),
        ("Checkout", "show and charge both", ["Model", "Rates"]),
    ],
}


def main() -> None:
    prompt = sys.stdin.read()
    is_resumed = any(word.startswith("--resume") for word in sys.argv)
    session = next(
        word.partition("=")[2] for word in sys.argv if word.startswith(("--session-id", "--resume"))
    )
    say(type="system", subtype="init", session_id=session, model="scripted")
    if file := os.environ.get("DEEPWORK_PLAN"):
        end(plan(Path(file)))
    elif os.environ.get("DEEPWORK_VERDICT"):
        end('Nothing is missing, and no test is weaker. {"findings": []}')
    else:
        end(work(prompt, is_resumed=is_resumed))


def plan(file: Path) -> str:
    """Hand over the plan; an agent with tools would call workflow_set_plan."""
    tasks = [
        {
            "name": name,
            "description": f"Goal: {goal}.\nDone when: its file says so, and no TODO is left.",
            "files_likely_affected": ["*.txt"],
            "depends_on": after,
        }
        for name, goal, after in PLAN["tasks"]
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**PLAN, "tasks": tasks}))
    return "Planned."


def work(prompt: str, *, is_resumed: bool) -> str:
    """Write the file of a task, if nothing gets in the way."""
    if not is_resumed and prompt.startswith("# Task: Model"):
        os.kill(os.getpid(), signal.SIGKILL)
    if not is_resumed and prompt.startswith("# Task: Checkout"):
        meet_limit()
    name = os.environ["DEEPWORK_TASK"]
    is_first = "What an earlier attempt left" not in prompt
    is_false = prompt.startswith("# Task: Rates") and is_first
    Path(f"{name}.txt").write_text("TODO\n" if is_false else f"The work on {name}.\n")
    return "Everything is done, all tests pass!" if is_false else f"I wrote {name}.txt."


def end(text: str) -> None:
    usage = {"input_tokens": 1200, "output_tokens": 80}
    message = {"id": f"msg_{os.getpid()}", "content": [{"type": "text", "text": text}], "usage": usage}
    say(type="assistant", message=message)
    say(type="result", subtype="success", is_error=False, result=text, total_cost_usd=0.01, usage=usage)


def meet_limit() -> None:
    reset = int(time.time()) + RESET_SECONDS
    info = {"status": "rejected", "resetsAt": reset, "rateLimitType": "five_hour"}
    say(type="rate_limit_event", rate_limit_info=info)
    say(type="result", subtype="error_during_execution", is_error=True, result="You've hit your limit.")
    sys.exit(1)


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
