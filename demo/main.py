"""`make demo`: one sentence becomes a tested branch, although an agent lies, one is killed and one meets a limit.

Then a line of it is explained, and a task rewound. `demo/main.py --all` also shows messages, a job with a quality gate,
reviews, a plan, a track and checks, which share one temporary project; in a terminal its dashboard stays open until Ctrl-C.
"""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

STORY = {"runner": "Do"}
PARTS = {
    "two_agents": "Messages",
    "job": "Job",
    "review": "Reviews",
    "plan": "Plan",
    "track": "Track",
    "checks": "Checks",
}
LINE = "-" * 100
DASHBOARD = [sys.executable, "-P", "-m", "deepwork", "dashboard"]


def main() -> None:
    # The parts are modules next to this file, whatever the current folder is.
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        happened = {}
        shows_all = "--all" in sys.argv[1:]
        parts = STORY | PARTS if shows_all else STORY
        for number, (part, name) in enumerate(parts.items()):
            if number:
                print(f"\n{LINE}\n", flush=True)
            happened[name] = importlib.import_module(part).show(project)
        print_summary(happened)
        if shows_all and sys.stdin.isatty() and sys.stdout.isatty():
            open_dashboard(project)


def print_summary(happened: Mapping[str, str]) -> None:
    """Say what each part came to, as it reported it."""
    print(f"\n{LINE}\n\nWhat happened, on real servers, files and git repositories:\n")
    widest = max(map(len, happened))
    for name, text in happened.items():
        print(f"  {name:<{widest}}  {text}.")
    print("\nNext: docs/quickstart.md, or `deepwork init` in your own project.", flush=True)


def open_dashboard(project: Path) -> None:
    """Serve the project's dashboard until Ctrl-C."""
    print(
        f"\n{LINE}\n\nThe dashboard of this project. Ctrl-C stops it and deletes the project:\n", flush=True
    )
    dashboard = subprocess.Popen([*DASHBOARD, "--path", str(project), "--port", str(find_free_port())])
    try:
        dashboard.wait()
    except KeyboardInterrupt:  # the dashboard, in the same terminal, gets it too
        dashboard.wait(timeout=20)
    finally:
        dashboard.kill()


def find_free_port() -> int:
    """Find a free port: the default one may be in use by the user's own dashboard."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
