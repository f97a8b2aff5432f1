"""Twenty parallel tasks end as one tested branch, each change exactly once."""

from __future__ import annotations

from landing.make import LandingProject, get_statuses
from landing.many_tasks import ManyTasks

CHECK = "checks: {clean: {run: [sh, -c, '! ls | grep bad']}}\n"


def build_tasks() -> dict[str, dict[str, str]]:
    """Twenty tasks: 3, 8, 13 and 18 change the same line, 5 and 11 break the check."""
    tasks = {f"t{number}": {f"t{number}.txt": f"{number}\n"} for number in range(20)}
    for number in (3, 8, 13, 18):
        tasks[f"t{number}"]["a.txt"] = f"by {number}\n"
    for number in (5, 11):
        tasks[f"t{number}"][f"bad{number}.txt"] = "bad\n"
    return tasks


def test_twenty_tasks_with_conflicts_and_red_ones_land_with_every_change_once(
    project: LandingProject,
) -> None:
    project.define_checks(CHECK)
    project.git("checkout", "-q", "-b", "desk")
    plan = ManyTasks(project.app, project.folder, build_tasks())
    project.require_checks(plan.id, "clean")

    first = project.land(workflow_id=plan.id)

    left = {name for name, status in get_statuses(first).items() if status != "landed"}
    problems = {each["title"]: each.get("problem") for each in first["landings"] if each["title"] in left}
    conflicts = dict.fromkeys(("t8", "t13", "t18"), "conflict")
    assert (first["exit_code"], problems) == (3, {**conflicts, "t5": "red", "t11": "red"})
    for name in sorted(left):
        number = name[1:]
        plan.correct(name, {f"{name}.txt": f"{number}\n", f"bad{number}.txt": ""})

    second = project.land(workflow_id=plan.id)

    assert second["exit_code"] == 0, second
    assert sorted(project.list_landed()) == sorted(build_tasks())
    parents = project.git("log", "--first-parent", "--grep=^Land ", "--format=%P", "main").splitlines()
    assert {len(line.split()) for line in parents} == {2}
    files = set(project.git("ls-tree", "--name-only", "main").split())
    assert {f"t{number}.txt" for number in range(20)} <= files
    assert not {name for name in files if name.startswith("bad")}
    assert project.read("a.txt") == "by 3"
