"""Two hosts with a server each, one database, and many calls while parts of the system fail."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chaos import effects, ledger
from chaos.team_hosts import Network
from chaos.team_members import Crier, Follower, McpConnection, Member, Scribe
from chaos.team_postgres import TeamPostgres
from chaos.team_servers import TeamServer
from deepwork.edge.server.application import Application
from deepwork.kernel.events.log import Event
from reliability.result import Result

CROWD = "claude_code"
CROWD_SIZE = 20
PATIENCE = 180


class Team:
    """Two servers that share only the database."""

    def __init__(self, network: Network, postgres: TeamPostgres, left: TeamServer, right: TeamServer) -> None:
        self.network, self.postgres, self.left, self.right = network, postgres, left, right

    @property
    def servers(self) -> tuple[TeamServer, TeamServer]:
        return self.left, self.right

    def call(self, server: TeamServer, tool: str, **arguments: Any) -> Any:
        """Call a tool from the server's host."""
        return server.host.run(lambda: _call_each(server, [(tool, arguments)]))[0]


@contextmanager
def assemble_team(
    network: Network, postgres: TeamPostgres, folder: Path, lease_seconds: int = 86_400
) -> Iterator[Team]:
    """Start a team with an empty database."""
    postgres.empty()
    with ExitStack() as held:
        hosts = (network.left, network.right)
        left, right = [TeamServer(host, folder, postgres.url(host), lease_seconds) for host in hosts]
        for server in (left, right):
            held.enter_context(server)
        yield Team(network, postgres, left, right)


class Storm:
    """Clients on both hosts at work, and a follower of each server's event stream."""

    def __init__(self, team: Team, folder: Path, *, writes: int, cries: int, seed: int) -> None:
        """`writes`: by each of four scribes. `cries`: broadcasts by each of two criers."""
        self._total = 4 * writes + 2 * cries
        self.crowd, self._met = self._register_crowd(team, folder)
        self.followers = [Follower(server) for server in team.servers]
        self.scribes = [
            Scribe(server, folder / f"scribe-{number}", writes, seed + number, shared=self.crowd[0])
            for number, server in enumerate(team.servers * 2)
        ]
        self.criers = [Crier(server, self.crowd[0], CROWD, cries) for server in team.servers] if cries else []
        self.members: list[Member] = [*self.scribes, *self.criers]

    def break_often(self, times: int, breakage: Callable[[], None]) -> None:
        """Cause `times` failures, spread over the work: never before it starts or after it ends."""
        for number in range(times):
            self._wait_until_done(self._total * (number + 0.5) / (times + 1))
            breakage()

    def finish(self) -> None:
        for member in self.members:
            member.finish()

    def find_faults(self, app: Application) -> list[str]:
        """List effects and events that are lost, duplicate, unintended or out of order."""
        result = Result()
        self.check(result, app)
        return result.faults

    def check(self, result: Result, app: Application) -> None:
        """Compare what the clients were told with the store, and with what the followers saw."""
        log = [event for event in app.feed.iterate_stored(0) if isinstance(event, Event)]
        for follower in self.followers:
            follower.wait_for(log[-1].seq)
            follower.close()
        entries = [*self._met, *(entry for scribe in self.scribes for entry in scribe.ledger.entries)]
        found = [_format_effect(event) for event in log if not _is_cry(event)]
        result.report("lost", ledger.find_lost(entries, found))
        result.report("doubled", ledger.find_doubled(entries, found))
        result.faults += ledger.find_idleness(entries, 1.0)
        self._check_cries(result, Counter(_get_cry(event) for event in log if _is_cry(event)))
        result.report("damaged", [] if effects.is_without_gaps(app) else ["events or inboxes have gaps"])
        wrong = [difference for each in self.followers for difference in _compare_stream(each, log)]
        result.report("lost", [f"a follower saw {difference}" for difference in wrong])

    def _check_cries(self, result: Result, cries: Counter[tuple[str, str]]) -> None:
        meant = {(cry, each) for crier in self.criers for cry in crier.cries for each in self.crowd[1:]}
        result.report("lost", [f"cry {cry} never came" for cry in meant if not cries[cry]])
        result.report(
            "doubled", [f"cry {cry} came {n} times" for cry, n in cries.items() if n > 1 or cry not in meant]
        )

    def _register_crowd(self, team: Team, folder: Path) -> tuple[list[str], list[ledger.Entry]]:
        """Register agents that both hosts write to; the first one broadcasts."""
        kept = ledger.Ledger(folder / "founder")
        calls = [
            kept.intend(
                f"{number}", "agent_register", {"name": f"{number}", "runtime": CROWD, "metadata": {}}
            )
            for number in range(CROWD_SIZE + 1)
        ]
        answers = team.left.host.run(
            lambda: _call_each(team.left, [(call.tool, call.arguments) for call in calls])
        )
        for call, answer in zip(calls, answers, strict=True):
            kept.acknowledge(call, answer)
        kept.close()
        return [entry.answer["id"] for entry in kept.entries], kept.entries

    def _wait_until_done(self, calls: float) -> None:
        deadline = time.monotonic() + PATIENCE
        before = -1
        while (done := sum(member.done for member in self.members)) < calls:
            if done > before:
                deadline, before = time.monotonic() + PATIENCE, done
            assert time.monotonic() < deadline, f"no progress after {done} calls"
            time.sleep(0.01)


def _compare_stream(follower: Follower, log: list[Event]) -> list[str]:
    """Describe where a stream differs from the log."""
    seen = [Event(**each) for each in follower.seen]
    if seen == log:
        return []
    place = next((at for at, pair in enumerate(zip(seen, log, strict=False)) if pair[0] != pair[1]), len(log))
    return [f"{len(seen)} of {len(log)} events, different from number {place + 1} on"]


def _is_cry(event: Event) -> bool:
    return event.type == "message:created" and "cry" in event.data["body"]


def _format_effect(event: Event) -> str:
    return json.dumps(effects.build_effect(event), sort_keys=True)


def _get_cry(event: Event) -> tuple[str, str]:
    return event.data["body"]["cry"], event.data["recipient_id"]


def _call_each(server: TeamServer, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    client = McpConnection(server)
    try:
        return [client.call(tool, arguments) for tool, arguments in calls]
    finally:
        client.close()
