"""With `--land`, the work of each task lands when it is done; what cannot land goes back to its session."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepwork.delivery.landing.models import Landing
from deepwork.delivery.landing.store import LandingStore
from provenance.make import verify
from runner.endings import Ended, check_nothing_is_left, finish
from runner.run_project import RunProject
from runner.scripted import Steps
from workspaces.make import run_git

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

FIND = "git for-each-ref --format='%(refname:short)' refs/heads/deepwork/integration"
WAIT = {"do": "run", "argv": ["sh", "-c", f"until {FIND} | grep -q .; do sleep 0.1; done"]}
MERGE = {"do": "run", "argv": ["sh", "-c", f"git -c core.hooksPath=/dev/null merge -q -X ours $({FIND})"]}
MINE = {"do": "append", "file": "shared.txt", "line": "mine"}
DONE = {"do": "exit", "text": "Done."}
SCRIPT: dict[str, list[Steps]] = {
    "first": [[{"do": "append", "file": "shared.txt", "line": "first"}, *finish("first")]],
    # A session that is resumed goes on with the step at which it exited.
    "corrected": [[WAIT, MINE, *finish("corrected")], [WAIT, WAIT, WAIT, MERGE, DONE]],
    "stubborn": [
        [WAIT, {**MINE, "line": "other"}, DONE],
        [WAIT, WAIT, MINE, DONE],
        [WAIT, WAIT, WAIT, MINE, DONE],
    ],
}


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    project = RunProject(tmp_path_factory.mktemp("landed"), config="")
    project.set_plan([{"name": name, "depends_on": []} for name in SCRIPT], SCRIPT)
    ended = Ended(project, "--agents", "3", "--agent", "claude", "--land")
    check_nothing_is_left(project)
    yield ended
    project.close()


def get_landings(ended: Ended) -> dict[str, Landing]:
    with ended.project.app.database.reading() as tx:
        found = LandingStore(tx).find_newest(list(ended.project.ids.values()))
    return {each.title: each for each in found.values()}


def test_work_that_conflicts_goes_back_to_the_same_session_and_lands_then(landed: Ended) -> None:
    assert landed.list_stages("corrected") == ["done"], landed.output
    [attempt] = landed.list_attempts("corrected")
    starts = [process.start for process in landed.list_processes("corrected")]
    assert attempt["starts"] == len(starts) == 2

    landing = get_landings(landed)["corrected"]

    assert (landing.status, landing.returns, landing.attempt_id) == ("landed", 1, attempt["id"])
    branch = f"deepwork/integration/{landed.project.plan}"
    assert run_git(landed.project.folder, "show", f"{branch}:corrected.txt") == "corrected"
    message = run_git(landed.project.folder, "log", "-1", "--format=%B", landing.merge_commit or "")
    assert f"Deepwork-Attempt: {attempt['id']}" in message
    found = verify(landed.project.app, landed.project.folder, f"HEAD..{branch}")
    assert [each for each in found if each.verdict.fails(is_required=False) or not each.matches] == []
    known = {match.known_by.value for each in found for match in each.matches}
    assert known == {"runner", "landing", "watched"}  # the agent itself committed the merge


def test_work_that_conflicts_for_the_third_time_is_for_a_person(landed: Ended) -> None:
    landing = get_landings(landed)["stubborn"]

    assert (landing.status, landing.problem, landing.returns) == ("needs_person", "conflict", 2)
    assert landed.get_status("stubborn") == "completed"
    assert landed.list_attempts("stubborn")[-1]["starts"] == 3


def test_the_run_says_what_has_not_landed(landed: Ended) -> None:
    lines = [json.loads(line) for line in landed.result.out.splitlines()]
    of_landings = [line for line in lines if line["type"] == "landing"]

    assert landed.code == 3
    assert "These tasks have not landed: 'stubborn'" in landed.result.out
    assert {"landing:queued", "landing:updated", "landing:ended"} == {line["event"] for line in of_landings}


def test_a_run_that_cannot_land_says_so(tmp_path: Path) -> None:
    project = RunProject(tmp_path, config="")
    run_git(project.folder, "checkout", "-q", "--detach")
    project.set_plan([{"name": "only"}], {"only": [finish("only")]})

    ended = Ended(project, "--agent", "claude", "--land")

    project.close()
    assert ended.code == 3
    assert "started from no branch" in ended.result.out
    assert ended.get_status("only") == "completed"
