"""`python -P -m deepwork`: the same as the `deepwork` command."""

from __future__ import annotations

from deepwork.cli.main import main

if __name__ == "__main__":
    main()
