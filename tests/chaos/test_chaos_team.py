"""Two hosts with a server each and one PostgreSQL: the guarantees of one machine hold for a team."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.team import Storm, Team, assemble_team
from chaos.team_hosts import Network
from chaos.team_members import Claimer, Follower, Refused
from chaos.team_postgres import TeamPostgres
from deepwork.edge.server.application import Application

LEASE_SECONDS = 4
PATIENCE = 120


@pytest.fixture(scope="module")
def team(
    network: Network, team_postgres: TeamPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    """Two servers with short leases."""
    with assemble_team(network, team_postgres, tmp_path_factory.mktemp("team"), LEASE_SECONDS) as made:
        yield made


def test_tasks_are_each_done_once_by_agents_of_two_hosts(team: Team):
    count = 40
    plan = team.call(
        team.left, "workflow_create", name="storm", source_type="prompt", source_content="x",
        max_parallel_tasks=1000,
    )["id"]  # fmt: skip
    tasks = [{"name": f"task {number}", "depends_on": []} for number in range(count)]
    team.call(team.left, "workflow_set_plan", id=plan, plan={"summary": "storm", "tasks": tasks})

    all_at_work = threading.Barrier(4)
    claimers = [
        Claimer(server, f"{server.host.name}-{place}", plan, all_at_work)
        for place in "ab"
        for server in team.servers
    ]
    for claimer in claimers:
        claimer.finish()

    claims = Counter(claim for claimer in claimers for claim in claimer.claims)
    done = dict(pair for claimer in claimers for pair in claimer.completed)
    assert set(claims.values()) == {1}, "a claim was given to two agents"
    assert sum(claimer.done for claimer in claimers) == len(done) == count
    assert team.call(team.right, "workflow_get", id=plan)["status"] == "completed"
    assert {claimer.server for claimer in claimers if claimer.done} == set(team.servers), (
        "one host did all tasks"
    )


@pytest.mark.thorough
def test_tasks_of_a_dead_host_pass_to_agents_of_the_other(team: Team):
    followers = [Follower(server) for server in team.servers]
    ada = team.call(team.left, "agent_register", name="Ada", runtime="custom")["id"]
    bob = team.call(team.right, "agent_register", name="Bob", runtime="custom")["id"]
    plan = team.call(team.left, "workflow_create", name="p", source_type="prompt", source_content="x")["id"]
    team.call(team.right, "workflow_set_plan", id=plan, plan={"summary": "p", "tasks": [{"name": "build"}]})
    [task] = team.call(team.right, "workflow_next_tasks", workflow_id=plan)["tasks"]

    first = team.call(team.left, "task_claim", task_id=task["id"], agent_id=ada)
    team.call(
        team.left, "message_send", sender_id=ada, recipient_id=bob, message_type="query", body="I have it"
    )
    team.left.kill_and_start()
    [message] = team.call(team.right, "message_list", agent_id=bob)["messages"]
    deadline = time.monotonic() + PATIENCE
    while not (second := team.call(team.right, "task_claim", task_id=task["id"], agent_id=bob))["success"]:
        assert second["already_claimed_by"] == ada
        assert time.monotonic() < deadline, second
        time.sleep(0.2)
    team.left.wait_until_up()
    with pytest.raises(Refused) as late:
        team.call(
            team.left, "task_update_status", id=task["id"], status="completed", outcome="mine",
            agent_id=ada, claim_epoch=first["claim_epoch"],
        )  # fmt: skip

    assert message["body"] == "I have it"
    assert second["claim_epoch"] == first["claim_epoch"] + 1
    assert late.value.error["code"] == "STALE_CLAIM"
    team.call(team.right, "agent_unregister", id=bob)
    # Later events, such as agents of other tests going silent, may have reached only one of them.
    [last] = {follower.wait_for_type("agent:unregistered") for follower in followers}
    for follower in followers:
        follower.close()
    left, right = (follower.seen[:last] for follower in followers)
    assert [event["seq"] for event in left] == list(range(1, last + 1))
    assert left == right


@pytest.mark.thorough
def test_no_event_is_lost_or_duplicated_while_one_of_two_servers_is_killed(
    network: Network,
    team_postgres: TeamPostgres,
    tmp_path: Path,
    open_app: Callable[[str], Application],
    seed: int,
):
    kills = 5
    with assemble_team(network, team_postgres, tmp_path) as team:
        storm = Storm(team, tmp_path, writes=50, cries=45, seed=seed)

        cut, spared = storm.followers
        connections = iter(range(1, kills + 1))

        def kill() -> None:
            # A follower that has not reconnected could not notice the next kill.
            cut.wait_for_connections(next(connections))
            team.left.kill_and_start()

        storm.break_often(kills, kill)
        storm.finish()

        app = open_app(team_postgres.local_url)
        assert storm.find_faults(app) == []
        assert app.feed.get_last_seq() >= 2_000
        assert cut.cuts >= kills, "the kills were not noticed"
        assert spared.cuts == 0, "a follower of the running server was disconnected"
