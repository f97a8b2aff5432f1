"""Generates the tables in docs/reliability.md from the record of the long runs; a test checks that it is up to date."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # for `reliability`, which is not installed

from reliability.parts import PARTS, Part  # noqa: E402
from reliability.record import Record, load_record, select_batches, sum_counts  # noqa: E402

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: written by `make docs` -->\n", "<!-- end of the figures -->\n"

Batch = dict[str, Any]


def render_page() -> str:
    """Render the page with new tables; the text around them is kept."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + render_figures(load_record()) + END + after


def render_figures(record: Record) -> str:
    """Render all tables."""
    versions = list(dict.fromkeys(batch["version"] for batch in record["batches"]))
    return "\n" + "".join(
        [*(_render_version(record, version) for version in reversed(versions)), _render_test_runs(record)]
    )


def _render_version(record: Record, version: str) -> str:
    batches = {part.name: select_batches(record, part.name, version) for part in PARTS}
    run = [part for part in PARTS if batches[part.name]]
    return (
        f"## Version {version}\n\n"
        + _render_amounts(run, batches)
        + _render_losses(run, batches)
        + _render_memory(batches["soak"])
        + _render_faults([batch for part in run for batch in batches[part.name] if batch.get("faults")])
    )


def _render_amounts(parts: list[Part], batches: dict[str, list[Batch]]) -> str:
    head = "| part | database | what was done | target | time | commits |\n|---|---|---|---|--:|---|\n"
    return (
        "### What was run\n\n"
        + head
        + "".join(_render_amount(part, batches[part.name]) for part in parts)
        + "\n"
    )


def _render_amount(part: Part, batches: list[Batch]) -> str:
    good = _select_good(batches)
    done = sum_counts(good)
    shown = [
        name for name in ("kills", "restarts", "rounds", "claims", "minutes", "events", "calls") if done[name]
    ]
    amount = ", ".join(f"{done[name]:,} {name}" for name in shown)
    target = ", ".join(_format_target(name, count) for name, count in part.target.items())
    is_reached = all(done[name] >= count for name, count in part.target.items())
    minutes = sum(batch["seconds"] for batch in good) / 60
    return (
        f"| `{part.name}`: {part.about} | {part.database} | {amount} | {target}"
        f"{'' if is_reached else ' (not reached)'} | {minutes:,.0f} min | {_list_commits(batches)} |\n"
    )


def _format_target(name: str, count: int) -> str:
    return "every write once" if name == "passes" else f"{count:,} {name}"


def _render_losses(parts: list[Part], batches: dict[str, list[Batch]]) -> str:
    head = (
        "| part | lost | doubled | damaged | internal errors | at first try | the command |\n"
        "|---|--:|--:|--:|--:|--:|---|\n"
    )
    rows = [_render_loss(part, _select_good(batches[part.name])) for part in parts]
    return "### What was lost\n\n" + head + "".join(rows) + "\n"


def _render_loss(part: Part, batches: list[Batch]) -> str:
    done = sum_counts(batches)
    losses = " | ".join(
        f"{done[name]:,}" if name in part.measures else "-"
        for name in ("lost", "doubled", "damaged", "internal_errors")
    )
    command = (
        "make soak ARGS=--again" if part.name == "soak" else f'make chaos ARGS="--again --only {part.name}"'
    )
    return f"| `{part.name}` | {losses} | {_format_share(part, done)} | `{command}` |\n"


def _format_share(part: Part, done: Counter[str]) -> str:
    """Format the share of calls answered without an error at the first try."""
    if "first_try" not in part.measures or not done["calls"]:
        return "-"
    return f"{100 * done['first_try'] / done['calls']:.1f} %"


def _render_memory(batches: list[Batch]) -> str:
    measured = [batch["measured"] for batch in batches if batch.get("measured")]
    if not measured:
        return ""
    head = "| | after a tenth of the time | at the end | most |\n|---|--:|--:|--:|\n"
    names = {"page_mb": "the page's heap", "server_mb": "the server's memory"}
    rows = [
        f"| {names[name]} | {each[name][0]:.0f} MB | {each[name][-1]:.0f} MB | {max(each[name]):.0f} MB |\n"
        for each in measured
        for name in names
    ]
    rates = ", ".join(f"{each['events_per_second'][0]:.0f}" for each in measured)
    return (
        f"### Memory during `make soak`\n\nAt {rates} events a second: the aim is 200, or what the machine can do beside its other work.\n\n"
        + head
        + "".join(rows)
        + "\n"
    )


def _render_faults(batches: list[Batch]) -> str:
    """Render the batches that failed: they count for nothing above."""
    if not batches:
        return ""
    rows = [
        f"| `{batch['part']}` | {batch['date'][:16].replace('T', ' ')} | {batch['commit']} | {batch['seed']} |"
        f" {_escape(batch['faults'][0].rstrip('.'))}{'. ' + _escape(batch['note']) if batch.get('note') else ''} |\n"
        for batch in batches
    ]
    head = "| part | when (UTC) | commit | seed | first fault |\n|---|---|---|--:|---|\n"
    return "### Batches that failed\n\nThey are not counted above.\n\n" + head + "".join(rows) + "\n"


def _render_test_runs(record: Record) -> str:
    runs = record["test_runs"]
    green = sum(not run["failed"] for run in runs)
    head = "| commit | when (UTC) | passed | failed | time | beside it |\n|---|---|--:|--:|--:|---|\n"
    return (
        "## How often `make test-all` was green\n\n"
        f"{green} of {len(runs)} recorded complete runs, oldest first. Earlier runs, and runs of commits that were not noted, are not listed.\n\n"
        + head
        + "".join(map(_render_test_run, runs))
        + "\n"
    )


def _render_test_run(run: dict[str, Any]) -> str:
    minutes = f"{run['seconds'] / 60:,.0f} min" if run["seconds"] else "-"
    remark = f"{_escape(run['beside'])}{'; ' + _escape(run['note']) if run.get('note') else ''}"
    return (
        f"| {run['commit']} | {run['date'][:16].replace('T', ' ')} | {run['passed']:,} | {run['failed']} |"
        f" {minutes} | {remark} |\n"
    )


def _select_good(batches: list[Batch]) -> list[Batch]:
    return [batch for batch in batches if not batch.get("faults")]


def _list_commits(batches: list[Batch]) -> str:
    return ", ".join(dict.fromkeys(batch["commit"] for batch in batches))


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
