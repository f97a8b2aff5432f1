"""What `make demo` runs: two agents that meet, a job behind a gate, reviews of a change, a plan, a record.

All in one project. In a terminal its dashboard stays open at the end, until Ctrl-C; then everything is removed.
"""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = ("two_agents", "job", "review", "plan", "track")
LINE = "-" * 100
DASHBOARD = [sys.executable, "-P", "-m", "deepwork", "dashboard"]


def main() -> None:
    # The parts lie beside this file, wherever it is started from.
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        for number, part in enumerate(PARTS):
            if number:
                print(f"\n{LINE}\n", flush=True)
            importlib.import_module(part).show(project)
        if sys.stdin.isatty() and sys.stdout.isatty():
            look(project)


def look(project: Path) -> None:
    """Leave the page of the project open until its reader has seen enough."""
    print(
        f"\n{LINE}\n\nAll of this as a page; Ctrl-C ends it, and the demo's project goes with it:\n",
        flush=True,
    )
    dashboard = subprocess.Popen([*DASHBOARD, "--path", str(project), "--port", str(free_port())])
    try:
        dashboard.wait()
    except KeyboardInterrupt:  # the dashboard, in the same terminal, hears it too
        dashboard.wait(timeout=20)
    finally:
        dashboard.kill()


def free_port() -> int:
    """Any that is free: the usual one may be in use by a dashboard of the reader's own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
