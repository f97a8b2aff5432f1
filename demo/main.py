"""What `make demo` runs: two agents that meet, a job behind a gate, reviews of a change, a plan, a record."""

from __future__ import annotations

import runpy
from pathlib import Path

for number, part in enumerate(("two_agents.py", "job.py", "review.py", "plan.py", "track.py")):
    if number:
        print(f"\n{'-' * 100}\n", flush=True)
    runpy.run_path(str(Path(__file__).with_name(part)), run_name="__main__")
