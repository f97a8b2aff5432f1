"""What `make bench` measures: one list of sections, each with its rows, their floors and their targets.

To add a row, add a line here, and let the section's function measure a value of the same name.
"""

from __future__ import annotations

from collections.abc import Callable
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
    provenance,
    public_benchmark,
    repository_day,
    reviews,
    rival,
    running,
    starts,
    tracking,
)
from benchmarks.timing import Effort, Samples


@dataclass(frozen=True)
class Row:
    """One figure: the median of what was measured, and its ratio to the floor."""

    name: str
    floor: str = ""
    """The row of the same section that it is compared with."""
    target: float | None = None
    """The highest ratio to the floor; the lowest if more is better. None: it is only measured."""
    unit: str = "ms"

    @property
    def more_is_better(self) -> bool:
        return self.unit == "/s"


@dataclass(frozen=True)
class Section:
    """Rows that are measured together, in turns with their floors."""

    name: str
    about: str
    measure: Callable[[Effort], Samples]
    rows: tuple[Row, ...]
    needs: str = ""
    """The option without which the section is left out."""


def compare(floor: str, targets: dict[str, float | None], unit: str = "ms") -> tuple[Row, ...]:
    """Build a row for the floor, and one for each name with its target."""
    return (Row(floor, unit=unit), *(Row(name, floor, most, unit) for name, most in targets.items()))


def compare_sizes(small: str, large: str, names: tuple[str, ...]) -> tuple[Row, ...]:
    """Build two rows for each name; the floor of the large one is the small one."""
    pairs = ((f"{name} ({small})", f"{name} ({large})") for name in names)
    return tuple(row for first, second in pairs for row in (Row(first), Row(second, first)))


def compare_with_rival(targets: dict[str, float], unit: str = "ms") -> tuple[Row, ...]:
    """Build two rows for each name: the rival's, and ours."""
    pairs = ((rival.name_rival(name), name, most) for name, most in targets.items())
    return tuple(
        row for floor, name, most in pairs for row in (Row(floor, unit=unit), Row(name, floor, most, unit))
    )


SECTIONS = (
    Section(
        "starts",
        "From starting a server over stdio to its answer.",
        starts.measure_starts,
        compare(
            "raw start",
            {
                "echo start": None,
                "start to initialize": 4.5,
                "start to first tools/call": 7.5,
                "start to first tools/call, fresh project": 8.5,
            },
        ),
    ),
    Section(
        "commands",
        "Processor time of whole commands.",
        commands.measure_commands,
        compare(
            "python -c pass",
            {
                "deepwork --version": 8,
                "deepwork --help": 8,
                "deepwork agents list": 8,
                "deepwork plans list": 8,
                "deepwork status": 8,
            },
            "CPU ms",
        ),
    ),
    Section(
        "hooks",
        "How long a client waits for its hook, while a server runs.",
        commands.measure_hooks,
        compare("python -c pass, waited for", {"hook tool-use": 6, "hook tool-use, PostgreSQL": 6}),
    ),
    Section(
        "calls",
        "Single calls over stdio.",
        calls.measure_stdio_calls,
        (
            *compare(
                "raw call",
                {
                    "echo call": None,
                    "agent_get": 5,
                    "task_get": 5,
                    "checkpoint_list": 5,
                    "message_list (3)": 6,
                    "message_list (20)": 15,
                    "workflow_next_tasks (8)": 8,
                    "workflow_progress (8)": 8,
                    "task_load_context": 15,
                    "task_load_context, heavy task": 25,
                    "workflow_get_summary": 15,
                },
            ),
            *compare(
                "commit",
                {
                    "agent_heartbeat": 1.5,
                    "checkpoint_add": 2,
                    "message_send": 2,
                    "task_update_status (begun)": 2.5,
                    "task_update_status (completed)": 2.5,
                    "task_claim": 2.5,
                    "workflow_create": 2.5,
                },
            ),
        ),
    ),
    Section(
        "http",
        "Single calls over HTTP.",
        calls.measure_http_calls,
        compare(
            "echo call",
            {
                "agent_get": 0.4,
                "task_get": 0.4,
                "checkpoint_list": 0.4,
                "message_list (3)": 0.4,
                "message_list (20)": 0.6,
                "workflow_next_tasks (8)": 0.5,
                "workflow_progress (8)": 0.5,
                "task_load_context": 0.6,
                "task_load_context, heavy task": 1.0,
                "workflow_get_summary": 0.6,
                "agent_heartbeat": 1.0,
                "checkpoint_add": 1.2,
                "message_send": 1.2,
                "task_update_status (begun)": 1.4,
                "task_update_status (completed)": 1.4,
                "task_claim": 1.4,
                "workflow_create": 1.4,
            },
        ),
    ),
    Section(
        "crowds",
        "Eight HTTP clients at once: calls per second, and tasks per second of the whole loop of a worker.",
        http_crowds.measure_crowds,
        compare(
            "echo, 8 clients",
            {
                "reads, 8 clients": 4.5,
                "heartbeats, 8 clients": 1.2,
                "claims, 8 clients": 1.2,
                "claim race, 8 clients": None,
                "whole tasks, 8 clients": 0.2,
            },
            "/s",
        ),
    ),
    Section(
        "memory",
        "Memory of servers after 20,000 calls.",
        memory.measure_memory,
        compare(
            "raw memory", {"echo memory": None, "idle memory, stdio": 3.5, "idle memory, HTTP": 6.5}, "MB"
        ),
    ),
    Section(
        "footprint",
        "What 10,000 tasks and 50,000 checkpoints occupy.",
        memory.measure_footprint,
        compare(
            "raw memory",
            {
                "memory grown by 10,000 tasks, 50,000 checkpoints": 6,
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
            for row in compare(f"raw executemany ({size:,})", {f"workflow_set_plan ({size:,})": 4})
        ),
    ),
    Section(
        "large-plans",
        "Questions about 10,000 tasks, in the server.",
        large_plans.measure_large_plans,
        tuple(
            row
            for shape in large_plans.READ
            for row in compare(
                f"raw count (10,000 {shape})",
                {f"next_tasks (10,000 {shape})": 12, f"progress (10,000 {shape})": 12},
            )
        ),
    ),
    Section(
        "jobs",
        "Projects with many jobs, and jobs with many steps, over stdio.",
        jobs.measure_jobs,
        (
            *compare(
                "raw call",
                {
                    **{f"get_workflows ({count} jobs), first": None for count in jobs.COUNTS},
                    "get_workflows (1 jobs)": 10,
                    "get_workflows (50 jobs)": 20,
                    "get_workflows (500 jobs)": 150,
                },
            ),
            *compare(
                "commit", {"start_workflow": 8, "finished_step (5 steps)": 8, "finished_step (200 steps)": 12}
            ),
        ),
    ),
    Section(
        "reviews",
        "Reviews of 200 changed files of 5,000, next to the git commands that find them.",
        reviews.measure_reviews,
        (
            *compare(reviews.GIT, {reviews.FIRST: None, reviews.REVIEWS: 4, reviews.AGAIN: 4}),
            *compare("raw call", {reviews.RULES: 20}),
        ),
    ),
    Section(
        "tracking",
        "Snapshots of working trees, next to two plain git diffs.",
        tracking.measure_snapshots,
        tuple(
            row
            for count, most in tracking.TARGETS.items()
            for row in compare(
                f"{tracking.PLAIN} ({count:,})",
                {
                    f"{tracking.FIRST} ({count:,})": None,
                    f"{tracking.SNAPSHOT} ({count:,})": most,
                    f"{tracking.AGAIN} ({count:,})": None,
                },
            )
        ),
    ),
    Section(
        "checks",
        "Whether two checks have to run, on 10,000 files of which none changed.",
        checks.measure_decisions,
        compare(checks.SNAPSHOT, {checks.DECISION: 2}),
    ),
    Section(
        "provenance",
        "Whether the trailers of 10,000 commits are true, in the server.",
        provenance.measure_verification,
        compare(provenance.LOG, {provenance.VERIFIED: 3, provenance.REBASED: 3}),
    ),
    Section(
        "context",
        "What was done by 10,000 tracked tasks, in the server.",
        tracking.measure_context,
        compare("raw count of tracked tasks", {"get_context (10,000 tasks)": 3}),
    ),
    Section(
        "growth-tasks",
        "The same call on a plan of 100 and of 10,000 tasks.",
        growth.measure_plan_growth,
        compare_sizes(
            "100 tasks",
            "10,000 tasks",
            (
                "task_get",
                "task_claim and task_release",
                "checkpoint_add",
                "workflow_next_tasks",
                "workflow_progress",
                "task_load_context",
                "workflow_get_summary",
                "task_get_available",
            ),
        ),
    ),
    Section(
        "growth-claims",
        "The same call while 1 and while 300 tasks are running.",
        growth.measure_claim_growth,
        compare_sizes("1 running", "300 running", ("task_claim", "task_update_status")),
    ),
    Section(
        "growth-servers",
        "The same call with 1 and with 50 servers on one file.",
        growth.measure_server_growth,
        compare_sizes(
            "1 server", "50 servers", ("agent_get", "agent_heartbeat", "agent_heartbeat of all at once, each")
        ),
    ),
    Section(
        "runner",
        "Fifty agents: the processor that the runner takes in a second, and how long a new one needs for all.",
        running.measure_runner,
        (
            *compare(running.ONE_PERCENT, {running.IDLE: 1}, "CPU ms"),
            *compare(running.FIVE_PERCENT, {running.BUSY: 1}, "CPU ms"),
            *compare(running.SECOND, {running.ADOPTION: 1}),
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
        compare_with_rival(
            dict.fromkeys(rival.STARTS, 1.0)
            | dict.fromkeys(rival.READS, 1.0)
            | dict.fromkeys(rival.WRITES, 2.0)
            | {row + rival.UNFLUSHED: 1.0 for row in rival.WRITES}
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
            ),
        ),
        needs="rival_http",
    ),
)
