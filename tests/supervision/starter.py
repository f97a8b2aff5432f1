"""Starts a supervised program and waits; a test kills it. Arguments: a folder, and what the program does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from deepwork.kernel.supervision.supervised_program import start_supervised

PROGRAM = Path(__file__).with_name("tree_program.py")


def main() -> None:
    words = [sys.executable, "-S", str(PROGRAM), *sys.argv[1:]]
    with start_supervised(words, cwd=PROGRAM.parent, env={"PATH": os.environ["PATH"]}) as program:
        print(program._process.pid, flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main()
