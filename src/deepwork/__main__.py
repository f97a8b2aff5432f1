"""`python -P -m deepwork`: the same as the `deepwork` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a hook without what only the other commands need, as an agent waits for it."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from deepwork.hooks.door import main as answer_event  # noqa: PLC0415

        answer_event(sys.argv[2:])
    from deepwork.cli.main import main as run_command  # noqa: PLC0415

    run_command()


if __name__ == "__main__":
    main()
