"""What `make bench` measures: one list of sections, each with its rows, their floors and their limits.

To add a row, add a line here, and let the section's function measure a value of the same name. A limit is a target if
it was set before anybody had measured the row; one that was set after a figure was seen is a `Guard`: it says that
nothing became worse, not that it is good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks import (
    calls,
    checks,
    commands,
    growth,
    http_crowds,
    jobs,
    large_plans,
    memory,
    public_benchmark,
    repository_day,
    reviews,
    rival,
    running,
    starts,
    tracking,
    worktrees,
)
from benchmarks.timing import Effort, Samples


class Guard(float):
    """A limit that was set after a first figure: it keeps the row from getting worse."""


@dataclass(frozen=True)
class Row:
    """One figure: the median of what was measured, and its ratio to the floor."""

    name: str
    floor: str = ""
    """The row of the same section that it is compared with."""
    limit: float | None = None
    """The highest ratio to the floor; the lowest if more is better. None: it is only measured."""
    unit: str = "ms"
    why: str = ""
    """Why it misses its target, if it does; rows of a section with one reason are one entry of the list."""


@dataclass(frozen=True)
class Section:
    """Rows that are measured together, in turns with their floors."""

    name: str
    about: str
    measure: Callable[[Effort], Samples]
    rows: tuple[Row, ...]
    needs: str = ""
    """The option without which the section is left out."""


def compare(
    floor: str, limits: Mapping[str, float | None], unit: str = "ms", why: str = ""
) -> tuple[Row, ...]:
    """Build a row for the floor, and one for each name with its limit."""
    rows = (Row(name, floor, most, unit, why) for name, most in limits.items())
    return (Row(floor, unit=unit), *rows)


def compare_sizes(small: str, large: str, names: Mapping[str, float | None]) -> tuple[Row, ...]:
    """Build two rows for each name; the floor of the large one is the small one."""
    pairs = ((f"{name} ({small})", f"{name} ({large})", most) for name, most in names.items())
    return tuple(row for first, second, most in pairs for row in (Row(first), Row(second, first, most)))


def compare_with_rival(limits: Mapping[str, float], unit: str = "ms", why: str = "") -> tuple[Row, ...]:
    """Build two rows for each name: the rival's, and ours."""
    return tuple(
        row
        for name, most in limits.items()
        for row in compare(rival.name_rival(name), {name: most}, unit, why)
    )


_WHY_READS = (
    "Python encodes each answer twice, as text and as an object; the summary also has the outcome of each "
    "completed task, which makes it ten times as long."
)
_WHY_WRITES = (
    "Each write also stores its event, its history and its audit row, and a claim its lease; a completion also "
    "names the tasks that can start now."
)
_WHY_HTTP = "One process answers all clients, and Python needs longer than Bun for each request."
SECTIONS = (
    Section(
        "starts",
        "From starting a server over stdio to its answer.",
        starts.measure_starts,
        compare(
            "raw start",
            {
                "echo start": None,
                "start to initialize": Guard(4.5),
                "start to first tools/call": Guard(7.5),
                "start to first tools/call, fresh project": Guard(8.5),
            },
        ),
    ),
    Section(
        "commands",
        "Processor time of whole commands.",
        commands.measure_commands,
        compare(
            "python -c pass",
            {f"deepwork {name}": 6.6 for name in commands.COMMANDS},
            "CPU ms",
            "Most of their time is the import of 200 to 300 modules.",
        ),
    ),
    Section(
        "hooks",
        "How long a client waits for its hook, while a server runs.",
        commands.measure_hooks,
        compare(
            "python -c pass, waited for",
            {"hook tool-use": 6, "hook tool-use, PostgreSQL": 6},
            why="Each hook is a new process, which imports, and connects to PostgreSQL.",
        ),
    ),
    Section(
        "calls",
        "Single calls over stdio.",
        calls.measure_stdio_calls,
        (
            *compare("raw call", {"echo call": None, **dict.fromkeys(calls.READS)}),
            *compare("commit", dict.fromkeys(calls.WRITES)),
        ),
    ),
    Section(
        "http",
        "Single calls over HTTP.",
        calls.measure_http_calls,
        compare("echo call", dict.fromkeys(calls.OVER_HTTP)),
    ),
    Section(
        "crowds",
        "Eight HTTP clients at once: calls per second, and tasks per second of the whole loop of a worker.",
        http_crowds.measure_crowds,
        compare(
            "echo, 8 clients",
            {
                "reads, 8 clients": 6,
                "heartbeats, 8 clients": Guard(1.2),
                "claims, 8 clients": 1.5,
                "claim race, 8 clients": None,
                "whole tasks, 8 clients": 0.4,
            },
            "/s",
            "Writers wait for each other's flush, and one process answers all clients.",
        ),
    ),
    Section(
        "memory",
        "Memory of servers after 20,000 calls.",
        memory.measure_memory,
        compare(
            "raw memory",
            {"echo memory": None, "idle memory, stdio": Guard(3.5), "idle memory, HTTP": Guard(6.5)},
            "MB",
        ),
    ),
    Section(
        "footprint",
        "What 10,000 tasks and 50,000 checkpoints occupy.",
        memory.measure_footprint,
        compare(
            "raw memory",
            {
                "memory grown by 10,000 tasks, 50,000 checkpoints": Guard(6),
                "file of 10,000 tasks, 50,000 checkpoints": None,
            },
            "MB",
        ),
    ),
    Section(
        "set-plan",
        "Storing large plans, in the server.",
        large_plans.measure_set_plan,
        tuple(
            row
            for size in large_plans.WRITTEN
            for row in compare(f"raw executemany ({size:,})", {f"workflow_set_plan ({size:,})": Guard(4)})
        ),
    ),
    Section(
        "jobs",
        "Projects with many jobs, and jobs with many steps, over stdio.",
        jobs.measure_jobs,
        (
            *compare(
                jobs.LIMIT,
                {f"get_workflows ({jobs.COUNTS[0]} jobs), first": 1},
                why="It is the work of a first call: imports, and reading the jobs; later calls take a thousandth.",
            ),
            *compare(
                "raw call",
                {
                    "get_workflows (1 jobs)": Guard(10),
                    "get_workflows (50 jobs)": Guard(20),
                    "get_workflows (500 jobs)": Guard(150),
                },
            ),
            *compare(
                "commit",
                {
                    "start_workflow": Guard(8),
                    "finished_step (5 steps)": Guard(8),
                    "finished_step (200 steps)": Guard(12),
                },
            ),
        ),
    ),
    Section(
        "reviews",
        "Reviews of 200 changed files of 5,000, next to the git commands that find them.",
        reviews.measure_reviews,
        (
            *compare(reviews.GIT, {reviews.FIRST: None, reviews.REVIEWS: Guard(4), reviews.AGAIN: Guard(4)}),
            *compare("raw call", {reviews.RULES: Guard(20)}),
        ),
    ),
    Section(
        "tracking",
        "Snapshots of working trees, next to two plain git diffs.",
        tracking.measure_snapshots,
        compare(tracking.PLAIN, {tracking.FIRST: None, tracking.SNAPSHOT: Guard(2), tracking.AGAIN: None}),
    ),
    Section(
        "worktrees",
        "Tasks with a worktree each, over stdio, next to the git command that a person would need.",
        worktrees.measure_worktrees,
        tuple(
            row
            for size in worktrees.SIZES
            for floor, name, most in (
                (worktrees.ADD, worktrees.CLAIM, 1.8),
                (worktrees.STATUS, worktrees.COMPLETE, 5),
            )
            for row in compare(f"{floor} ({size:,} files)", {f"{name} ({size:,} files)": most})
        ),
    ),
    Section(
        "checks",
        "Whether two checks have to run, on 10,000 files of which none changed.",
        checks.measure_decisions,
        compare(checks.SNAPSHOT, {checks.DECISION: Guard(2)}),
    ),
    Section(
        "growth-tasks",
        "The same call on a plan of 100 and of 10,000 tasks.",
        growth.measure_plan_growth,
        compare_sizes("100 tasks", "10,000 tasks", dict.fromkeys(growth.GROWING, Guard(3))),
    ),
    Section(
        "growth-claims",
        "The same call while 1 and while 300 tasks are running.",
        growth.measure_claim_growth,
        compare_sizes(
            "1 running", "300 running", dict.fromkeys(("task_claim", "task_update_status"), Guard(2))
        ),
    ),
    Section(
        "growth-servers",
        "Heartbeats of all servers at once, each: 1 server, and 50 on one file.",
        growth.measure_server_growth,
        compare_sizes("1 server", "50 servers", {"agent_heartbeat": Guard(2)}),
    ),
    Section(
        "runner",
        "Fifty agents: the processor that the runner takes in a second, and how long a new one needs for all.",
        running.measure_runner,
        (
            *compare(running.ONE_PERCENT, {running.IDLE: Guard(1)}, "CPU ms"),
            *compare(running.FIVE_PERCENT, {running.BUSY: Guard(1)}, "CPU ms"),
            *compare(running.SECOND, {running.ADOPTION: Guard(1)}),
        ),
    ),
    Section(
        "day",
        "A day in a repository of 5,000 files: tasks with worktrees, hooks, a check and landing, and the same by hand.",
        repository_day.measure_day,
        compare(repository_day.HAND, {repository_day.DAY: 5, **dict.fromkeys(repository_day.PARTS)}, "s"),
    ),
    Section(
        "four-tools",
        "The workload of a public benchmark: fifty users over HTTP, the server on one core.",
        public_benchmark.measure_four_tools,
        tuple(
            row
            for kind in (public_benchmark.REQUESTS, public_benchmark.CALLS)
            for row in compare(public_benchmark.FASTMCP + kind, {public_benchmark.OURS + kind: 1.9}, "/s")
        ),
    ),
    Section(
        "rival",
        "Another server for the same tools over stdio, beside ours.",
        rival.measure_rival,
        (
            *compare_with_rival(dict.fromkeys(rival.STARTS, 1.0)),
            *compare_with_rival(dict.fromkeys(calls.READS, 1.0), why=_WHY_READS),
            *compare_with_rival(
                dict.fromkeys(calls.WRITES, 2.0) | {row + rival.UNFLUSHED: 1.0 for row in calls.WRITES},
                why=_WHY_WRITES,
            ),
        ),
        needs="rival",
    ),
    Section(
        "rival-http",
        "Another server for the same tools over HTTP, beside ours: eight clients at once, and opening a session.",
        rival.measure_rival_http,
        (
            *compare_with_rival({rival.SESSION: 1.0}),
            *compare_with_rival(
                {rival.CROWD_READS: 1.0}
                | dict.fromkeys(rival.CROWD_WRITES, 0.6)
                | {row + rival.UNFLUSHED: 1.0 for row in rival.CROWD_WRITES},
                "/s",
                _WHY_HTTP,
            ),
        ),
        needs="rival_http",
    ),
)

WAITED_FOR = (
    ("a server that starts, until its first answer", "starts", "start to first tools/call"),
    ("a read of a task", "calls", "task_get"),
    ("a claim", "calls", "task_claim"),
    ("a completion", "calls", "task_update_status (completed)"),
    ("a claim with a worktree, 5,000 files", "day", repository_day.CLAIM),
    ("a completion with a check, 5,000 files", "day", repository_day.COMPLETION),
    ("landing a task with a check, 5,000 files", "day", repository_day.LANDING),
    ("all of deepwork in a task, 5,000 files", "day", repository_day.DAY),
    ("a command that reads", "commands", "deepwork status"),
    ("a hook", "hooks", "hook tool-use"),
)
"""What the page tells first: in the user's words, the section and the row."""

COMPARED = (
    ("starts", "rival", rival.STARTS),
    ("reads", "rival", calls.READS),
    ("writes", "rival", calls.WRITES),
    ("writes, without the flush", "rival", tuple(row + rival.UNFLUSHED for row in calls.WRITES)),
    ("HTTP: opening a session", "rival-http", (rival.SESSION,)),
    ("HTTP, eight clients: reads per second", "rival-http", (rival.CROWD_READS,)),
    ("HTTP, eight clients: writes per second", "rival-http", rival.CROWD_WRITES),
    (
        "HTTP, eight clients: writes per second, without the flush",
        "rival-http",
        tuple(row + rival.UNFLUSHED for row in rival.CROWD_WRITES),
    ),
    (
        "four tools, fifty users: calls per second",
        "four-tools",
        (public_benchmark.OURS + public_benchmark.CALLS,),
    ),
    (
        "four tools, fifty users: requests per second",
        "four-tools",
        (public_benchmark.OURS + public_benchmark.REQUESTS,),
    ),
)
"""What the page compares with other servers: in words, the section and its rows."""
