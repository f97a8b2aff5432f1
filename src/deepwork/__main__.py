"""`python -P -m deepwork`: the same as the `deepwork` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; hooks skip the imports of the other commands, because an agent waits for them."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from deepwork.hooks.entrypoint import main as answer_event  # noqa: PLC0415

        answer_event(sys.argv[2:])
    from deepwork.cli.main import main as run_command  # noqa: PLC0415

    run_command()


if __name__ == "__main__":
    main()
