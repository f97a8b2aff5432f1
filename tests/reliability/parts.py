"""The parts of `make chaos`, and how much of each makes a full run; the page of the results is written from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One kind of run; `make chaos` repeats its batches until the recorded counts reach the target."""

    name: str
    about: str
    database: str
    target: dict[str, int]
    """What must be counted, by the name of the count."""
    measures: tuple[str, ...]
    """Which faults and shares a batch looks for: of the others a zero would mean nothing."""


STORED = ("lost", "doubled", "damaged")


PARTS = (
    Part(
        "fuzz-sqlite",
        "calls drawn from the schemas of all tools, valid and broken",
        "SQLite",
        {"calls": 20_000},
        ("internal_errors", "first_try"),
    ),
    Part(
        "fuzz-postgres",
        "calls drawn from the schemas of all tools, valid and broken",
        "PostgreSQL",
        {"calls": 20_000},
        ("internal_errors", "first_try"),
    ),
    Part(
        "kills",
        "two processes write, and are killed at random moments",
        "SQLite",
        {"kills": 300},
        (*STORED, "first_try"),
    ),
    Part(
        "kills-stdio",
        "a server over stdio is killed between a call and its answer; the client repeats the call",
        "SQLite",
        {"kills": 50},
        (*STORED, "first_try"),
    ),
    Part(
        "kills-http",
        "a server over HTTP is killed while two clients call it; they repeat their calls",
        "SQLite",
        {"kills": 50},
        (*STORED, "internal_errors", "first_try"),
    ),
    Part(
        "kills-watched",
        "the same while another program reads the store and somebody looks at the pages",
        "SQLite",
        {"kills": 50},
        (*STORED, "internal_errors", "first_try"),
    ),
    Part(
        "write-calls-claim",
        "a claim, killed at every system call that writes; then repeated",
        "SQLite",
        {"passes": 1},
        STORED,
    ),
    Part(
        "write-calls-step",
        "a finished step of a job, killed at every system call that writes; then repeated",
        "SQLite",
        {"passes": 1},
        STORED,
    ),
    Part(
        "claims-sqlite",
        "8 processes claim and complete the same tasks; 5 of them are killed in each batch",
        "SQLite",
        {"claims": 50_000},
        ("lost", "doubled"),
    ),
    Part(
        "claims-watched",
        "the same while another program opens, reads and closes the store in a loop",
        "SQLite",
        {"claims": 10_000},
        ("lost", "doubled"),
    ),
    Part(
        "stopped-holders-sqlite",
        "holders of tasks are paused until another agent has completed their task; then they report",
        "SQLite",
        {"rounds": 200},
        ("lost", "doubled"),
    ),
    Part(
        "stopped-holders-postgres",
        "holders of tasks are paused until another agent has completed their task; then they report",
        "PostgreSQL",
        {"rounds": 200},
        ("lost", "doubled"),
    ),
    Part(
        "runs-sqlite",
        "two agents work on four tasks; the runner, shims, agents and the whole machine are killed",
        "SQLite",
        {"kills": 300},
        (*STORED, "internal_errors"),
    ),
    Part(
        "runs-postgres",
        "two agents work on four tasks; the runner, shims, agents and the whole machine are killed",
        "PostgreSQL",
        {"kills": 300},
        (*STORED, "internal_errors"),
    ),
    Part(
        "landings-sqlite",
        "finished tasks land on one branch; the process is killed around programs of git and commits",
        "SQLite",
        {"kills": 300},
        (*STORED, "internal_errors"),
    ),
    Part(
        "landings-postgres",
        "finished tasks land on one branch; the process is killed around programs of git and commits",
        "PostgreSQL",
        {"kills": 300},
        (*STORED, "internal_errors"),
    ),
    Part(
        "attacks",
        'an agent does drawn acts on files, git settings, environment and time to get "done" without the work',
        "SQLite",
        {"sequences": 2_000},
        ("lost",),
    ),
    Part(
        "temporal",
        "two workers of a Temporal server work on four tasks; workers, shims and agents are killed",
        "SQLite",
        {"kills": 60},
        STORED,
    ),
    Part(
        "restarts",
        "six clients of two servers; the database is restarted as after a power failure",
        "PostgreSQL",
        {"calls": 20_000, "restarts": 150},
        (*STORED, "internal_errors", "first_try"),
    ),
    Part(
        "claims-postgres",
        "16 processes claim and complete the same tasks, of up to four plans; some are killed in each batch",
        "PostgreSQL",
        {"claims": 200_000},
        ("lost", "doubled"),
    ),
    Part(
        "soak",
        "200 events a second for a page with 10,000 tasks in a browser",
        "SQLite",
        {"minutes": 10, "events": 120_000},
        ("first_try",),
    ),
)
