"""`make bench`: compares every figure with a floor that is measured in the same run.

Floors and rows take turns, so that load on the machine affects both. Read the ratios: milliseconds depend on the
machine. docs/performance.md explains the floors.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import (
    Figure,
    build_figures,
    compare_with_baseline,
    format_misses,
    format_table,
    is_beyond,
    replace_sections,
)
from benchmarks.rows import SECTIONS, Section
from benchmarks.timing import Effort

import deepwork
from deepwork.edge.server import prepared_tools

BASELINE = Path(__file__).parent / "baseline.json"


def main(words: Sequence[str] | None = None) -> int:
    options = _parse_options(words)
    if options.list:
        print("\n".join(_describe(section, options) for section in SECTIONS))
        return 0
    _compile_modules()
    warn_of_outdated_descriptions()
    with tempfile.TemporaryDirectory(prefix="deepwork-bench-") as folder:
        effort = Effort(
            Path(folder), options.rounds, options.calls, options.starts, options.rival, options.rival_http
        )
        figures = [figure for section in options.sections for figure in _measure(section, effort)]
    return report(figures, options)


def _compile_modules() -> None:
    """Compile our modules, as they are on a machine that has run deepwork before."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(deepwork.__file__).parent, quiet=2)
    compileall.compile_dir(Path(__file__).with_name("echo"), quiet=2)


def warn_of_outdated_descriptions() -> None:
    """Say so if servers have to compute what a release has prepared, which takes several times as long as a start."""
    if json.loads(prepared_tools.TOOLS_FILE.read_bytes())["checksum"] != prepared_tools.compute_checksum():
        print(
            "The prepared descriptions are outdated, so servers start slowly: run `make docs`.",
            file=sys.stderr,
        )


def report(figures: list[Figure], options: argparse.Namespace) -> int:
    """Print and save the figures; return the exit code."""
    options.json.parent.mkdir(parents=True, exist_ok=True)
    _write_figures(options.json, figures)
    print(format_table(figures))
    print(format_misses(figures))
    before = json.loads(options.baseline.read_text())["rows"] if options.baseline.exists() else []
    print(compare_with_baseline(before, figures))
    if options.save:
        _write_figures(options.baseline, replace_sections(before, figures))
    return int(options.strict and any(map(is_beyond, figures)))


def _write_figures(path: Path, figures: list[Figure]) -> None:
    path.write_text(json.dumps({"python": platform.python_version(), "rows": figures}, indent=1) + "\n")


def _describe(section: Section, options: argparse.Namespace) -> str:
    left_out = "" if _can_measure(section, options) else f" Left out: give {_name_option(section)}."
    return f"{section.name:<16}{section.about}{left_out}"


def _can_measure(section: Section, options: argparse.Namespace) -> bool:
    return not section.needs or bool(getattr(options, section.needs))


def _name_option(section: Section) -> str:
    return f"--{section.needs.replace('_', '-')} COMMAND"


def _measure(section: Section, effort: Effort) -> list[Figure]:
    began = time.monotonic()
    figures = list(build_figures(section, section.measure(effort)))
    print(f"{section.name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return figures


def _parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="Measure only sections with such a name."
    )
    parser.add_argument("--list", action="store_true", help="List the sections and exit.")
    parser.add_argument("--strict", action="store_true", help="Exit with 1 if a row is beyond its limit.")
    parser.add_argument("--save", action="store_true", help="Put the measured sections into the baseline.")
    parser.add_argument("--rounds", type=int, default=Effort.rounds)
    parser.add_argument("--calls", type=int, default=Effort.calls, help="Calls of each row in a round.")
    parser.add_argument("--starts", type=int, default=Effort.starts, help="Starts of each process.")
    parser.add_argument(
        "--rival",
        default="",
        metavar="COMMAND",
        help="Another server for the same tools over stdio; {db} becomes the path of its store.",
    )
    parser.add_argument(
        "--rival-http",
        default="",
        metavar="COMMAND",
        help="The same over HTTP, at /mcp; {port} becomes its port.",
    )
    parser.add_argument("--json", type=Path, default=Path("reports/bench.json"))
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    options = parser.parse_args(words)
    named = [section for section in SECTIONS if re.search(options.only, section.name)]
    if not named:
        parser.error("no section has such a name; --list lists them")
    options.sections = [section for section in named if _can_measure(section, options)]
    if not options.sections and not options.list:
        parser.error(f"section {named[0].name} needs {_name_option(named[0])}")
    return options


if __name__ == "__main__":
    sys.exit(main())
