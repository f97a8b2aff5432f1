"""Runs the reliability tests at full size, in batches, and records each batch; a stopped run continues where it was.

Every part has a target. Batches of the same version count towards it, in whichever run they were made. A batch that
loses or doubles something is recorded too, ends the run with 1, and keeps its folder.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from fnmatch import fnmatch
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from isolation import isolate  # noqa: E402

isolate()
os.environ.setdefault("DEEPWORK_CHAOS_PATIENCE", "3600")  # a batch may be slow beside other work

from reliability.batches import BATCHES  # noqa: E402
from reliability.parts import PARTS, Part  # noqa: E402
from reliability.record import append_entry, describe_now, load_record, select_batches, sum_counts  # noqa: E402
from reliability.resources import Resources  # noqa: E402
from reliability.result import Result  # noqa: E402


def main() -> None:
    options = parse_options()
    parts = [part for part in PARTS if any(fnmatch(part.name, pattern) for pattern in options.only)]
    if not parts:
        sys.exit(f"No part is called {' or '.join(options.only)}; `--list` lists them.")
    if options.list:
        for part in parts:
            print(format_progress(part))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))
    end = time.monotonic() + 60 * options.minutes
    since = describe_now()["date"] if options.again else ""
    with Resources() as resources:
        is_good = all(run_part(part, resources, end, since) for part in parts)
    sys.exit(not is_good)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos ARGS=...", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="only parts with such a name; may be repeated"
    )
    parser.add_argument(
        "--minutes", type=float, default=60, help="start no batch after this time (default: 60)"
    )
    parser.add_argument("--again", action="store_true", help="count only the batches of this run")
    parser.add_argument("--list", action="store_true", help="only show how much of each part is recorded")
    options = parser.parse_args()
    options.only = options.only or ["*"]
    return options


def run_part(part: Part, resources: Resources, end: float, since: str) -> bool:
    """Run batches until the target is reached or the time is up; return False at the first fault."""
    while not is_complete(part, since) and time.monotonic() < end:
        if not run_batch(part, resources):
            return False
    print(format_progress(part, since), flush=True)
    return True


def run_batch(part: Part, resources: Resources) -> bool:
    """Run and record one batch; return whether it had no faults."""
    seed = int(os.environ.get("DEEPWORK_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    folder = Path(tempfile.mkdtemp(prefix=f"deepwork-{part.name}-"))
    now, began = describe_now(), time.monotonic()
    try:
        result = BATCHES[part.name](resources, folder, seed)
    except Exception as error:  # noqa: BLE001 - recorded, and shown with the folder
        traceback.print_exc()
        result = Result(faults=[f"{type(error).__name__}: {error}"[:2000]])
    except BaseException:  # stopped: the batch counts for nothing
        shutil.rmtree(folder, ignore_errors=True)
        raise
    entry = {
        "part": part.name, **now, "seconds": round(time.monotonic() - began, 1), "database": part.database,
        "seed": seed, "counts": dict(sorted(result.counts.items())),
    }  # fmt: skip
    entry |= {"measured": result.measured} if result.measured else {}
    entry |= {"faults": [fault[:500] for fault in result.faults[:5]]} if result.faults else {}
    append_entry("batches", entry)
    print(f"{part.name}: {entry['counts']} in {entry['seconds']} s, seed {seed}", flush=True)
    if result.faults:
        print("\n".join(["FAILED:", *result.faults[:50], f"Its files are in {folder}"]), flush=True)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def is_complete(part: Part, since: str = "") -> bool:
    done = count_done(part, since)
    return all(done[name] >= target for name, target in part.target.items())


def count_done(part: Part, since: str) -> dict[str, int]:
    """Count what good batches of this version did, from this time on."""
    batches = select_batches(load_record(), part.name, describe_now()["version"])
    return sum_counts(batch for batch in batches if not batch.get("faults") and batch["date"] >= since)


def format_progress(part: Part, since: str = "") -> str:
    done = count_done(part, since)
    counts = ", ".join(f"{done[name]:,} of {target:,} {name}" for name, target in part.target.items())
    return f"{part.name}: {counts}" + ("" if is_complete(part, since) else " - not complete")


if __name__ == "__main__":
    main()
