"""An agent without a model: it plays the command line of Claude Code, as a script says.

The task "meets a limit" ends at a usage limit once, and the task "is killed" kills itself once. Started again in
the same session, each of them finishes. Every other task just writes its file.
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


def main() -> None:
    prompt = sys.stdin.read()
    is_resumed = any(word.startswith("--resume") for word in sys.argv)
    session = next(
        word.partition("=")[2] for word in sys.argv if word.startswith(("--session-id", "--resume"))
    )
    say(type="system", subtype="init", session_id=session, model="scripted")
    if not is_resumed and prompt.startswith("# Task: is killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if not is_resumed and prompt.startswith("# Task: meets a limit"):
        meet_limit()
    name = os.environ["DEEPWORK_TASK"]
    Path(f"{name}.txt").write_text(f"The work on {name}.\n")
    text = f"I wrote {name}.txt."
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
