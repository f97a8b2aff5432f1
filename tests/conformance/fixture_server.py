"""The `deepwork` command whose server offers the fixtures instead of deepwork's tools; all else is the real program."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
COMMAND = (sys.executable, "-P", str(Path(__file__)))


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from conformance.fixture_service import FixtureService
    from deepwork.edge.cli.main import main as run_command
    from deepwork.edge.server import mcp_service
    from deepwork.kernel.protocol import tasks

    tasks.GRACE_SECONDS = 0.1  # the suite expects that a call of one second becomes a task
    mcp_service.McpService = lambda _: FixtureService()  # type: ignore[assignment, misc, return-value]
    run_command()


if __name__ == "__main__":
    main()
