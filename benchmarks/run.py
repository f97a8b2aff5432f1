"""`make bench`: one run, every figure beside a bare FastMCP echo server measured in the same run.

Rounds of each server take turns, so that a busy machine is busy for all of them. Ratios are the figures to read;
milliseconds depend on the machine. What only git can tell is measured by git instead, run alone in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import job_rows
import plan_rows
import review_rows
import track_rows
from rows import ROWS, Desk

from clients import Caller, Http, HttpServer, Stdio

HERE = Path(__file__).parent
BASELINE = HERE / "baseline.json"
SLOWER = 1.25
SERVE = ("-m", "deepwork", "serve", "--path")

Figures = dict[str, Any]
Call = Callable[[int], Any]


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="deepwork-bench-") as folder:
        figures = [
            *cold_starts(folder, options.starts),
            *commands(folder, options.starts),
            *calls(folder, options.rounds, options.calls),
            *crowd(folder, options.calls),
            *job_calls(folder, options.rounds, options.calls),
            *review_calls(folder, options.rounds, options.calls),
            *plan_calls(folder, options.rounds, options.calls),
            *plan_rows.large(Path(folder) / "plans"),
            *plan_rows.footprint(Path(folder) / "footprint"),
            *track_figures(Path(folder) / "track"),
        ]
    report = {"python": sys.version.split()[0], "rows": figures}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1))
    print(table(figures))
    if options.save:
        BASELINE.write_text(json.dumps(report, indent=1) + "\n")
    elif BASELINE.exists():
        print(comparison(json.loads(BASELINE.read_text())["rows"], figures))


def cold_starts(folder: str, times: int) -> Iterator[Figures]:
    """From starting a server process to its first answer, and the memory it then has."""
    servers = {
        "raw echo": (str(HERE / "echo" / "raw.py"),),
        "bare echo": (str(HERE / "echo" / "bare.py"),),
        "deepwork": (*SERVE, folder),
    }
    took: dict[str, list[float]] = {name: [] for name in servers}
    memory: dict[str, float] = {}
    for _ in range(times):
        for name, command in servers.items():
            began = time.perf_counter()
            server = Stdio(*command)
            took[name].append((time.perf_counter() - began) * 1000)
            if name == "deepwork":
                server.call("agent_list", {})
            memory[name] = server.memory_mb()
            server.close()
    echo = statistics.median(took["bare echo"])
    for name, values in took.items():
        yield _row(f"cold start, {name}", values, echo)
    for name, value in memory.items():
        yield {
            "name": f"idle memory, {name}",
            "mb": round(value, 1),
            "ratio": round(value / memory["bare echo"], 2),
        }


def commands(folder: str, times: int) -> Iterator[Figures]:
    """Whole commands; the first two open no database. Their ratio is to an empty Python."""
    words = {
        "python -c pass": ["-c", "pass"],
        "deepwork --version": ["-m", "deepwork", "--version"],
        "deepwork --help": ["-m", "deepwork", "--help"],
        "deepwork agents list": ["-m", "deepwork", "agents", "list", "--path", folder],
    }
    took: dict[str, list[float]] = {name: [] for name in words}
    for _ in range(times * 2):
        for name, command in words.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-P", *command], check=True, stdout=subprocess.DEVNULL)
            took[name].append((time.perf_counter() - began) * 1000)
    python = statistics.median(took["python -c pass"])
    for name, values in took.items():
        yield _row(name, values, python)


def calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Single calls, over both transports."""
    for transport, opened in (("stdio", _stdio_callers), ("http", _http_callers)):
        with opened(folder) as (yardsticks, caller):
            desk = Desk.set_up(caller)
            work: dict[str, Call] = {name: _echo(echo) for name, echo in yardsticks.items()}
            work |= {row.name: _tool(caller, row.tool, row.arguments, desk) for row in ROWS}
            took = _take_turns(work, rounds, count)
            echo = statistics.median(took["bare echo"])
            targets = {row.name: row.target for row in ROWS}
            for name, values in took.items():
                yield _row(f"{transport} {name}", values, echo, targets.get(name))


def crowd(folder: str, count: int) -> Iterator[Figures]:
    """Eight clients at once: calls a second, as the time that a call takes of it."""
    took: dict[str, list[float]] = {}
    bare = HttpServer(str(HERE / "echo" / "bare.py"), "{port}")
    ours = HttpServer(*SERVE, folder, "--transport", "http", "--port", "{port}", "--rate-limit", "0")
    desk = Desk.set_up(Http(ours.port))
    for _ in range(2):
        for name, port, tool, arguments in [
            ("bare echo", bare.port, "echo", {"text": "hello"}),
            ("agent_get", ours.port, "agent_get", {"id": desk.ada}),
            ("agent_heartbeat", ours.port, "agent_heartbeat", {"agent_id": desk.ada}),
        ]:
            took.setdefault(name, []).append(_crowded(port, tool, arguments, count))
    bare.close()
    ours.close()
    echo = statistics.median(took["bare echo"])
    for name, values in took.items():
        yield _row(f"8 http clients {name}", values, echo)


def job_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Jobs: many of them, and long ones."""
    bare = Stdio(str(HERE / "echo" / "bare.py"))
    try:
        took = job_rows.measure(Path(folder) / "jobs", rounds, count, bare)
    finally:
        bare.close()
    echo = statistics.median(took["bare echo (jobs)"])
    for name, values in took.items():
        yield _row(f"stdio {name}", values, echo, job_rows.TARGETS.get(name))


def review_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Reviews of a large change; finding it is measured by the git commands that this needs, run alone."""
    bare = Stdio(str(HERE / "echo" / "bare.py"))
    try:
        took = review_rows.measure(Path(folder) / "reviews", rounds, count, bare)
    finally:
        bare.close()
    for name, values in took.items():
        yardstick = statistics.median(took[review_rows.YARDSTICKS.get(name, review_rows.ECHO)])
        yield _row(name, values, yardstick, review_rows.TARGETS.get(name))


def plan_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Small calls on plans, over both transports."""
    for transport, opened in (("stdio", _stdio_callers), ("http", _http_callers)):
        with opened(folder) as (yardsticks, caller):
            desk = plan_rows.Desk(caller)
            desk.fill(rounds * count + 10)
            echo_name = "bare echo (plans)"
            work: dict[str, Call] = {echo_name: _echo(yardsticks["bare echo"])}
            work |= {name: call for name, (call, _) in desk.work().items()}
            took = _take_turns(work, rounds, count)
            echo = statistics.median(took[echo_name])
            targets = {name: target or None for name, (_, target) in desk.work().items()}
            for name, values in took.items():
                yield _row(f"{transport} {name}", values, echo, targets.get(name))


def track_figures(folder: Path, rounds: int = 15) -> Iterator[Figures]:
    """Looks at working trees, measured by git's own two diffs; the state of many tasks, by what it may take."""
    for count in track_rows.FILES:
        took = track_rows.measure(folder, rounds, count)
        for name, values in took.items():
            yardstick = statistics.median(took[track_rows.YARDSTICKS.get(name, name)])
            yield _row(name, values, yardstick, track_rows.TARGETS.get(name))
    for name, values in track_rows.context(folder / "context").items():
        yield _row(name, values, track_rows.CONTEXT_MS, 1.0)


def _crowded(port: int, tool: str, arguments: dict[str, Any], count: int) -> float:
    def work(client: Http) -> None:
        for _ in range(count):
            client.call(tool, arguments)

    clients = [Http(port) for _ in range(8)]
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, clients))
    return (time.perf_counter() - began) * 1000 / (8 * count)


@contextmanager
def _stdio_callers(folder: str) -> Iterator[tuple[dict[str, Caller], Caller]]:
    with ExitStack() as stack:
        opened = [
            Stdio(str(HERE / "echo" / "raw.py")), Stdio(str(HERE / "echo" / "bare.py")), Stdio(*SERVE, folder),
        ]  # fmt: skip
        for each in opened:
            stack.callback(each.close)
        yield {"raw echo": opened[0], "bare echo": opened[1]}, opened[2]


@contextmanager
def _http_callers(folder: str) -> Iterator[tuple[dict[str, Caller], Caller]]:
    bare = HttpServer(str(HERE / "echo" / "bare.py"), "{port}")
    ours = HttpServer(*SERVE, folder, "--transport", "http", "--port", "{port}", "--rate-limit", "0")
    try:
        yield {"bare echo": Http(bare.port)}, Http(ours.port)
    finally:
        bare.close()
        ours.close()


def _echo(caller: Caller) -> Call:
    return lambda _: caller.call("echo", {"text": "hello"})


def _tool(caller: Caller, tool: str, arguments: Callable[[Desk, int], dict[str, Any]], desk: Desk) -> Call:
    return lambda number: caller.call(tool, arguments(desk, number))


def _take_turns(work: dict[str, Call], rounds: int, count: int) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in work}
    for call in work.values():
        for number in range(10):
            call(number)
    for _ in range(rounds):
        for name, call in work.items():
            for number in range(count):
                began = time.perf_counter()
                call(number)
                took[name].append((time.perf_counter() - began) * 1000)
    return took


def _row(name: str, values: list[float], echo: float, target: float | None = None) -> Figures:
    ordered = sorted(values)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    row: Figures = {
        "name": name,
        "p50_ms": round(p50, 3),
        "p99_ms": round(p99, 3),
        "ratio": round(p50 / echo, 2),
    }
    return row | ({"target": target} if target else {})


def table(rows: list[Figures]) -> str:
    lines = [f"{'':<44}{'p50 ms':>10}{'p99 ms':>10}{'ratio':>8}{'target':>8}"]
    for row in rows:
        shown = f"{row['mb']:>7} MB{'':>10}" if "mb" in row else f"{row['p50_ms']:>10}{row['p99_ms']:>10}"
        over = " OVER" if row["ratio"] > row.get("target", 1e9) else ""
        lines.append(f"{row['name']:<44}{shown}{row['ratio']:>8}{row.get('target', ''):>8}{over}")
    return "\n".join(lines)


def comparison(before: list[Figures], now: list[Figures]) -> str:
    """What got slower than the saved baseline, by its ratio."""
    known = {row["name"]: row["ratio"] for row in before}
    slower = [
        f"  {row['name']}: {known[row['name']]} → {row['ratio']}"
        for row in now
        if row["name"] in known and row["ratio"] > known[row["name"]] * SLOWER
    ]
    return (
        "\nSlower than the baseline:\n" + "\n".join(slower)
        if slower
        else "\nNothing is slower than the baseline."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("reports/bench.json"))
    parser.add_argument("--save", action="store_true", help="Make this run the baseline.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
