"""Many calls while PostgreSQL is restarted, as after a power failure: acknowledged calls have one effect."""

from __future__ import annotations

from pathlib import Path

from application import make_app
from chaos.team import Storm, assemble_team
from chaos.team_hosts import Network
from chaos.team_postgres import TeamPostgres
from reliability.result import Result

A_DAY = 86_400
ENOUGH = 0.5
"""The least share of calls that must be answered at the first try: others met a database that was down."""


def restart_often(
    network: Network,
    postgres: TeamPostgres,
    folder: Path,
    *,
    restarts: int,
    writes: int,
    broadcasts: int,
    seed: int,
) -> Result:
    """Restart the database during calls of six clients to two servers; `writes` by four of them each."""
    result, starts = Result(), {postgres.started_at()}

    def restart() -> None:
        postgres.restart()
        starts.add(postgres.started_at())

    with assemble_team(network, postgres, folder) as team:
        storm = Storm(team, folder, writes=writes, cries=broadcasts, seed=seed)
        storm.break_often(restarts, restart)
        storm.finish()  # raises for every refusal but one: the database was unavailable
        app = make_app(folder, postgres.local_url, lease_seconds=A_DAY)
        try:
            _count_calls(result, storm)
            result.count(restarts=len(starts) - 1)
            storm.check(result, app)
        finally:
            app.close()
        logs = team.left.log() + team.right.log()
    result.report("internal_errors", [word for word in ("INTERNAL_ERROR", "Traceback") if word in logs])
    return result


def _count_calls(result: Result, storm: Storm) -> None:
    calls = sum(member.done for member in storm.members)
    first = calls - sum(len(member.repeated) for member in storm.members)
    result.count(calls=calls, acknowledged=calls, first_try=first)
    result.faults += [f"only {first} of {calls} calls were answered at first try"] * (first < ENOUGH * calls)
