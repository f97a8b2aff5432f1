"""Adds a complete run of `make test-all` to the record that docs/reliability.md is written from.

It reads the last line that pytest printed, so `make test-all` itself changes no file:

    make test-all 2>&1 | tee test.log; python scripts/record_test_run.py test.log --beside "nothing"
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for `reliability`, which is not installed

from reliability.record import append_entry, describe_now  # noqa: E402

_SUMMARY = re.compile(r"^=+ (.*) in ([\d.]+)s(?: \([\d:]+\))? =+$", re.MULTILINE)
_AMOUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def parse_summary(log: str) -> dict[str, Any]:
    """Parse the last summary of pytest; an error counts as a failure."""
    found = _SUMMARY.findall(log)
    if not found:
        raise SystemExit("This log does not end with pytest's summary: the run was not complete.")
    words, seconds = found[-1]
    amounts = {kind.rstrip("s"): int(number) for number, kind in _AMOUNT.findall(words)}
    failed = amounts.get("failed", 0) + amounts.get("error", 0)
    skipped = {"skipped": amounts["skipped"]} if amounts.get("skipped") else {}
    return {"passed": amounts.get("passed", 0), "failed": failed, **skipped, "seconds": float(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="the output of `make test-all` or `.ci/run`")
    parser.add_argument("--beside", required=True, help="what else ran on the machine, or `nothing`")
    parser.add_argument("--commit", help="default: the one that is checked out")
    parser.add_argument("--date", help="when it began, as 2026-01-31T12:00:00Z; default: now")
    parser.add_argument("--note", default="", help="why it failed, for example")
    options = parser.parse_args()
    given = {"commit": options.commit, "date": options.date, "beside": options.beside, "note": options.note}
    entry = {**describe_now(), **{name: value for name, value in given.items() if value}}
    append_entry("test_runs", {**entry, **parse_summary(options.log.read_text(encoding="utf-8"))})


if __name__ == "__main__":
    main()
