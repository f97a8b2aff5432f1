"""Runs the tests several times, each round in another environment, to find tests that depend on luck.

Each round has its own order of tests, hash seed, time zone, locale, umask and empty home folder, a clock that
moves in steps of 50 ms, and a process that keeps one core busy. A round depends on its number alone, so that
one that failed can be repeated.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "reports" / "flaky"
TIME_ZONES = ("Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Pacific/Niue", "UTC")
UMASKS = (0o077, 0o002, 0o022)
CLOCK_STEP_MS = 50


@dataclass(frozen=True)
class Round:
    """One run of the tests, and the environment that makes it differ from the others."""

    number: int
    time_zone: str
    locale: str
    umask: int

    def environment(self, home: str) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": home,
            "TZ": self.time_zone,
            "LC_ALL": self.locale,
            "PYTHONHASHSEED": str(self.number),
            "DEEPWORK_TESTS_SHUFFLE": str(self.number),
            "DEEPWORK_TESTS_CLOCK_MS": str(CLOCK_STEP_MS),
        }

    def __str__(self) -> str:
        return (
            f"round {self.number}: seed {self.number}, time zone {self.time_zone}, locale {self.locale},"
            f" umask {self.umask:03o}"
        )


def plan_round(number: int, locales: list[str]) -> Round:
    """Build the round with this number: always the same on machines with the same locales."""
    draw = random.Random(number)
    return Round(number, draw.choice(TIME_ZONES), draw.choice(locales), UMASKS[number % len(UMASKS)])


def list_locales() -> list[str]:
    """List the locales of this machine."""
    listed = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=True).stdout
    return sorted(listed.split())


@contextmanager
def keep_core_busy() -> Iterator[None]:
    """Keep one core busy with another process, so that tests do not have the whole machine."""
    load = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        load.kill()
        load.wait()


def run_round(round: Round, arguments: list[str]) -> int:
    """Run all tests once; print their output and save it in `reports/flaky`."""
    workers = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *workers, *arguments]
    log = REPORTS / f"round-{round.number}.log"
    print(f"== {round}; log: {log.relative_to(ROOT)}", flush=True)
    with (
        tempfile.TemporaryDirectory() as home,
        log.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=round.environment(home),
            umask=round.umask,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as tests,
    ):
        assert tests.stdout is not None
        for line in tests.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            file.write(line)
    return tests.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds to run")
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    options, arguments = parser.parse_known_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    locales = list_locales()
    with keep_core_busy():
        rounds = [plan_round(options.first + place, locales) for place in range(options.rounds)]
        failed = [round for round in rounds if run_round(round, arguments)]
    for round in failed:
        print(f"failed: {round}; repeat it with: make flaky ARGS='--rounds 1 --first {round.number}'")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
