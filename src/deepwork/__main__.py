"""`python -P -m deepwork`: the same as the `deepwork` command."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

_SECRETS = ("DEEPWORK_DATABASE_URL", "DEEPWORK_STORE_KEY", "DEEPWORK_TOKEN", "PGPASSWORD")

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""What a command builds is rarely garbage; looking for it after 700 objects takes a tenth of the time."""


def main() -> None:
    """Run the command; hooks and servers skip the imports of other commands, because agents wait for them."""
    if any(name in os.environ for name in _SECRETS):  # first of all: an agent may be watching
        from deepwork.kernel.supervision.supervisor import hide_process  # noqa: PLC0415

        hide_process()
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        gc.disable()  # the process ends before its garbage matters
        from deepwork.views.hooks.entrypoint import main as answer_event  # noqa: PLC0415

        answer_event(sys.argv[2:])
    if sys.argv[1:2] == ["bridge"]:
        from deepwork.delivery.runner.bridge import main as pass_messages  # noqa: PLC0415

        pass_messages(sys.argv[2:])
        return
    if sys.argv[1:2] == ["serve"]:
        from deepwork.edge.server.launch import plan_launch  # noqa: PLC0415

        if (serve := plan_launch(sys.argv[2:])) is not None:
            _run_server(serve)
            return
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from deepwork.edge.cli.main import main as run_command  # noqa: PLC0415

    try:
        run_command()
    finally:
        gc.freeze()  # the process ends: looking once more for what can be freed would take milliseconds


def _run_server(serve: Callable[[], None]) -> None:
    try:
        serve()
    except Exception as error:  # noqa: BLE001 - reported as the command line reports errors
        from deepwork.edge.cli.main import report_error  # noqa: PLC0415

        sys.exit(report_error(error))


if __name__ == "__main__":
    main()
