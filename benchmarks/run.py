"""`make bench`: compares every figure with a bare FastMCP echo server measured in the same run.

The servers take turns, so that load on the machine affects all of them. Read the ratios: milliseconds depend on
the machine. Work that needs git is compared with the git commands alone.
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
from rows import ROWS, Agents

from clients import Caller, HttpClient, HttpServer, StdioClient

HERE = Path(__file__).parent
BASELINE = HERE / "baseline.json"
SLOWER = 1.25
SERVE = ("-m", "deepwork", "serve", "--path")

Figures = dict[str, Any]
Call = Callable[[int], Any]


def main() -> None:
    options = _parse_options()
    with tempfile.TemporaryDirectory(prefix="deepwork-bench-") as folder:
        figures = [
            *measure_cold_starts(folder, options.starts),
            *measure_commands(folder, options.starts),
            *measure_calls(folder, options.rounds, options.calls),
            *measure_crowd(folder, options.calls),
            *measure_job_calls(folder, options.rounds, options.calls),
            *measure_review_calls(folder, options.rounds, options.calls),
            *measure_plan_calls(folder, options.rounds, options.calls),
            *plan_rows.measure_large_plans(Path(folder) / "plans"),
            *plan_rows.measure_footprint(Path(folder) / "footprint"),
            *measure_tracking(Path(folder) / "track"),
        ]
    report = {"python": sys.version.split()[0], "rows": figures}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1))
    print(format_table(figures))
    if options.save:
        BASELINE.write_text(json.dumps(report, indent=1) + "\n")
    elif BASELINE.exists():
        print(compare_with_baseline(json.loads(BASELINE.read_text())["rows"], figures))


def measure_cold_starts(folder: str, times: int) -> Iterator[Figures]:
    """Measure the time from starting a server to its first answer, and its memory afterwards."""
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
            server = StdioClient(*command)
            took[name].append((time.perf_counter() - began) * 1000)
            if name == "deepwork":
                server.call("agent_list", {})
            memory[name] = server.get_memory_mb()
            server.close()
    echo = statistics.median(took["bare echo"])
    for name, values in took.items():
        yield _build_row(f"cold start, {name}", values, echo)
    for name, value in memory.items():
        yield {
            "name": f"idle memory, {name}",
            "mb": round(value, 1),
            "ratio": round(value / memory["bare echo"], 2),
        }


def measure_commands(folder: str, times: int) -> Iterator[Figures]:
    """Measure whole commands against an empty Python; the first two open no database."""
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
        yield _build_row(name, values, python)


def measure_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Single calls, over both transports."""
    for transport, opened in (("stdio", _open_stdio_callers), ("http", _open_http_callers)):
        with opened(folder) as (yardsticks, caller):
            agents = Agents.register(caller)
            work: dict[str, Call] = {name: _build_echo_call(echo) for name, echo in yardsticks.items()}
            work |= {row.name: _build_tool_call(caller, row.tool, row.arguments, agents) for row in ROWS}
            took = _take_turns(work, rounds, count)
            echo = statistics.median(took["bare echo"])
            targets = {row.name: row.target for row in ROWS}
            for name, values in took.items():
                yield _build_row(f"{transport} {name}", values, echo, targets.get(name))


def measure_crowd(folder: str, count: int) -> Iterator[Figures]:
    """Measure eight parallel clients: the average time per call, the inverse of their throughput."""
    took: dict[str, list[float]] = {}
    bare = HttpServer(str(HERE / "echo" / "bare.py"), "{port}")
    ours = HttpServer(*SERVE, folder, "--transport", "http", "--port", "{port}", "--rate-limit", "0")
    agents = Agents.register(HttpClient(ours.port))
    for _ in range(2):
        for name, port, tool, arguments in [
            ("bare echo", bare.port, "echo", {"text": "hello"}),
            ("agent_get", ours.port, "agent_get", {"id": agents.ada}),
            ("agent_heartbeat", ours.port, "agent_heartbeat", {"agent_id": agents.ada}),
        ]:
            took.setdefault(name, []).append(_measure_crowd(port, tool, arguments, count))
    bare.close()
    ours.close()
    echo = statistics.median(took["bare echo"])
    for name, values in took.items():
        yield _build_row(f"8 http clients {name}", values, echo)


def measure_job_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Measure projects with many jobs, and long jobs."""
    bare = StdioClient(str(HERE / "echo" / "bare.py"))
    try:
        took = job_rows.measure(Path(folder) / "jobs", rounds, count, bare)
    finally:
        bare.close()
    echo = statistics.median(took["bare echo (jobs)"])
    for name, values in took.items():
        yield _build_row(f"stdio {name}", values, echo, job_rows.TARGETS.get(name))


def measure_review_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Measure reviews of a large change, against the git commands that are needed to find it."""
    bare = StdioClient(str(HERE / "echo" / "bare.py"))
    try:
        took = review_rows.measure(Path(folder) / "reviews", rounds, count, bare)
    finally:
        bare.close()
    for name, values in took.items():
        yardstick = statistics.median(took[review_rows.YARDSTICKS.get(name, review_rows.ECHO)])
        yield _build_row(name, values, yardstick, review_rows.TARGETS.get(name))


def measure_plan_calls(folder: str, rounds: int, count: int) -> Iterator[Figures]:
    """Measure small calls on plans over both transports."""
    for transport, opened in (("stdio", _open_stdio_callers), ("http", _open_http_callers)):
        with opened(folder) as (yardsticks, caller):
            fixture = plan_rows.PlanFixture(caller)
            fixture.fill(rounds * count + 10)
            echo_name = "bare echo (plans)"
            work: dict[str, Call] = {echo_name: _build_echo_call(yardsticks["bare echo"])}
            work |= {name: call for name, (call, _) in fixture.list_calls().items()}
            took = _take_turns(work, rounds, count)
            echo = statistics.median(took[echo_name])
            targets = {name: target or None for name, (_, target) in fixture.list_calls().items()}
            for name, values in took.items():
                yield _build_row(f"{transport} {name}", values, echo, targets.get(name))


def measure_tracking(folder: Path, rounds: int = 15) -> Iterator[Figures]:
    """Measure snapshots against two plain git diffs, and the context of many tasks against a fixed target."""
    for count in track_rows.FILES:
        took = track_rows.measure(folder, rounds, count)
        for name, values in took.items():
            yardstick = statistics.median(took[track_rows.YARDSTICKS.get(name, name)])
            yield _build_row(name, values, yardstick, track_rows.TARGETS.get(name))
    for name, values in track_rows.measure_context(folder / "context").items():
        yield _build_row(name, values, track_rows.CONTEXT_MS, 1.0)


def _measure_crowd(port: int, tool: str, arguments: dict[str, Any], count: int) -> float:
    def work(client: HttpClient) -> None:
        for _ in range(count):
            client.call(tool, arguments)

    clients = [HttpClient(port) for _ in range(8)]
    began = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, clients))
    return (time.perf_counter() - began) * 1000 / (8 * count)


@contextmanager
def _open_stdio_callers(folder: str) -> Iterator[tuple[dict[str, Caller], Caller]]:
    with ExitStack() as stack:
        opened = [
            StdioClient(str(HERE / "echo" / "raw.py")),
            StdioClient(str(HERE / "echo" / "bare.py")),
            StdioClient(*SERVE, folder),
        ]
        for each in opened:
            stack.callback(each.close)
        yield {"raw echo": opened[0], "bare echo": opened[1]}, opened[2]


@contextmanager
def _open_http_callers(folder: str) -> Iterator[tuple[dict[str, Caller], Caller]]:
    bare = HttpServer(str(HERE / "echo" / "bare.py"), "{port}")
    ours = HttpServer(*SERVE, folder, "--transport", "http", "--port", "{port}", "--rate-limit", "0")
    try:
        yield {"bare echo": HttpClient(bare.port)}, HttpClient(ours.port)
    finally:
        bare.close()
        ours.close()


def _build_echo_call(caller: Caller) -> Call:
    return lambda _: caller.call("echo", {"text": "hello"})


def _build_tool_call(
    caller: Caller, tool: str, arguments: Callable[[Agents, int], dict[str, Any]], agents: Agents
) -> Call:
    return lambda number: caller.call(tool, arguments(agents, number))


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


def _build_row(name: str, values: list[float], echo: float, target: float | None = None) -> Figures:
    ordered = sorted(values)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    row: Figures = {
        "name": name,
        "p50_ms": round(p50, 3),
        "p99_ms": round(p99, 3),
        "ratio": round(p50 / echo, 2),
    }
    return row | ({"target": target} if target else {})


def format_table(rows: list[Figures]) -> str:
    lines = [f"{'':<44}{'p50 ms':>10}{'p99 ms':>10}{'ratio':>8}{'target':>8}"]
    for row in rows:
        shown = f"{row['mb']:>7} MB{'':>10}" if "mb" in row else f"{row['p50_ms']:>10}{row['p99_ms']:>10}"
        over = " OVER" if row["ratio"] > row.get("target", 1e9) else ""
        lines.append(f"{row['name']:<44}{shown}{row['ratio']:>8}{row.get('target', ''):>8}{over}")
    return "\n".join(lines)


def compare_with_baseline(before: list[Figures], now: list[Figures]) -> str:
    """List the rows whose ratio is worse than in the saved baseline."""
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


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("reports/bench.json"))
    parser.add_argument("--save", action="store_true", help="Make this run the baseline.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
