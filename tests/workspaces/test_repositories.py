"""Repository tools, on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from workspaces.make import create_plan, create_repository


def test_a_repository_is_registered_and_found_by_its_path(app: Application, tmp_path: Path):
    here = create_repository(tmp_path / "shop")

    answer = call_tool(app, "repository_register", path=str(here), name="The shop")

    assert answer == {"id": answer["id"]}
    assert answer["id"].startswith("rp_")
    assert call_tool(app, "repository_get", path=str(here)) == {
        "id": answer["id"], "path": str(here), "name": "The shop", "host": app._host,
        "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    assert list_event_types(app) == ["repository:registered"]
    assert list_events(app)[0].data["name"] == "The shop"


def test_the_default_name_of_a_repository_is_its_folder_name(app: Application, tmp_path: Path):
    call_tool(app, "repository_register", path=str(create_repository(tmp_path / "shop")))

    assert call_tool(app, "repository_get", path=str(tmp_path / "shop"))["name"] == "shop"


def test_paths_with_links_and_dots_resolve_to_the_same_repository(app: Application, tmp_path: Path):
    here = create_repository(tmp_path / "shop")
    (tmp_path / "link").symlink_to(here)
    first = call_tool(app, "repository_register", path=str(here))["id"]

    assert call_tool(app, "repository_register", path=str(tmp_path / "link"))["id"] == first
    assert call_tool(app, "repository_register", path=f"{here}/../shop/.")["id"] == first
    assert call_tool(app, "repository_get", path=str(tmp_path / "link"))["id"] == first
    assert call_tool(app, "repository_list")["total"] == 1


def test_a_new_name_replaces_the_old_one_and_omitting_it_keeps_it(
    app: Application, clock: Clock, tmp_path: Path
):
    here = str(create_repository(tmp_path / "shop"))
    call_tool(app, "repository_register", path=here, name="old")
    clock.advance(seconds=5)

    call_tool(app, "repository_register", path=here, name="new")
    call_tool(app, "repository_register", path=here)

    found = call_tool(app, "repository_get", path=here)
    assert (found["name"], found["created_at"], found["updated_at"]) == ("new", NOW, NOW + 5000)
    assert list_event_types(app) == ["repository:registered", "repository:registered"]


@pytest.mark.parametrize("path", ["shop", "./shop", "  ", "~nobody-of-that-name/x"])
def test_a_relative_or_invalid_path_is_refused(app: Application, path: str):
    with pytest.raises(InvalidInput) as refused:
        call_tool(app, "repository_register", path=path)

    assert "`path`" in refused.value.message
    assert list_event_types(app) == []


def test_a_folder_without_git_is_registered_with_a_warning(app: Application, tmp_path: Path):
    answer = call_tool(app, "repository_register", path=str(tmp_path / "not-there"))

    assert answer["warning"] == f"{tmp_path / 'not-there'} is not a git repository here."
    assert call_tool(app, "repository_get", path=str(tmp_path / "not-there"))["id"] == answer["id"]


def test_an_unknown_path_is_null(app: Application, tmp_path: Path):
    assert call_tool(app, "repository_get", path=str(tmp_path / "nothing")) is None


def test_repositories_are_listed_newest_first_in_pages(app: Application, clock: Clock, tmp_path: Path):
    for number in range(5):
        call_tool(app, "repository_register", path=str(tmp_path / f"r{number}"))
        clock.advance(seconds=1)

    page = call_tool(app, "repository_list", limit=2, offset=1)

    assert [each["name"] for each in page["repositories"]] == ["r3", "r2"]
    assert page["total"] == 5
    for limit, offset in ((0, 0), (201, 0), (20, -1)):
        with pytest.raises(InvalidInput):
            call_tool(app, "repository_list", limit=limit, offset=offset)


# Plans and their repositories


def test_creating_a_plan_registers_its_repository(app: Application, tmp_path: Path):
    create_plan(app)

    assert [each["path"] for each in call_tool(app, "repository_list")["repositories"]] == [str(tmp_path)]


def test_plans_are_listed_by_repository_in_any_path_notation(app: Application, tmp_path: Path):
    other = create_repository(tmp_path / "other")
    (tmp_path / "link").symlink_to(other)
    here, _ = create_plan(app)
    there, _ = create_plan(app, repository_path=str(other))

    def ids(path: str) -> list[str]:
        return [each["id"] for each in call_tool(app, "workflow_list", repository_path=path)["workflows"]]

    assert ids(str(tmp_path / "link")) == ids("other") == [there]
    assert ids(str(tmp_path)) == ids(".") == [here]
    assert set(ids("*")) == {here, there}


def test_a_template_is_applied_to_the_given_repository(app: Application, tmp_path: Path):
    create_repository(tmp_path / "other")

    id = call_tool(
        app, "template_apply", template_id="bugfix", workflow_name="W", repository_path="other",
        variables={"bug": "x"},
    )["workflow_id"]  # fmt: skip

    assert call_tool(app, "workflow_get", id=id)["repository_path"] == str(tmp_path / "other")


def test_a_template_is_applied_to_the_only_repository_of_a_list(app: Application, tmp_path: Path):
    create_repository(tmp_path / "other")

    id = call_tool(
        app, "template_apply", template_id="bugfix", workflow_name="W", repository_paths=["other"],
        variables={"bug": "x"},
    )["workflow_id"]  # fmt: skip

    assert call_tool(app, "workflow_get", id=id)["repository_path"] == str(tmp_path / "other")


def test_in_the_global_store_plans_of_all_projects_are_listed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    one = make_app(create_repository(tmp_path / "one"), "", clock, global_store=True)
    two = make_app(create_repository(tmp_path / "two"), "", clock, global_store=True)
    mine, _ = create_plan(one)
    theirs, _ = create_plan(two)

    listed = call_tool(one, "workflow_list")["workflows"]
    assert {each["id"]: each["repository_path"] for each in listed} == {
        mine: str(tmp_path / "one"), theirs: str(tmp_path / "two"),
    }  # fmt: skip
    assert [each["id"] for each in call_tool(one, "workflow_list", repository_path=".")["workflows"]] == [
        mine
    ]
    assert call_tool(two, "workflow_list", repository_path="*")["total"] == 2
    assert call_tool(two, "workflow_get", id=mine)["repository_path"] == str(tmp_path / "one")
    agent = call_tool(one, "agent_register", name="Ada", runtime="codex")["id"]
    _, tasks = create_plan(one, "here")
    create_plan(two, "there")
    offered = call_tool(one, "task_get_available", agent_id=agent)
    assert ([task["id"] for task in offered["tasks"]], offered["total_available"]) == (tasks, 1)
    assert (tmp_path / "home/.deepwork/deepwork.db").exists()
    one.close()
    two.close()


def test_cyclic_links_are_refused(app: Application, tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(InvalidInput) as refused:
        call_tool(app, "repository_register", path=str(tmp_path / "a"))

    assert refused.value.code is Code.INVALID_INPUT


def test_a_path_that_is_too_long_is_refused_before_anything_is_stored(app: Application):
    for path in ("/tmp/" + "x" * 300, "/x" * 3000):
        with pytest.raises(InvalidInput) as refused:
            create_plan(app, repository_path=path)
        assert "too long for a path" in refused.value.message
    assert list_event_types(app) == []


def test_without_the_admin_scope_plans_are_limited_to_known_repositories(app: Application, tmp_path: Path):
    stranger, known = create_repository(tmp_path / "stranger"), create_repository(tmp_path / "known")
    call_tool(app, "repository_register", path=str(known))
    made = {"name": "w", "source_type": "prompt", "source_content": "x"}

    def create(path: Path) -> Any:
        spec = app.registry["workflow_create"]
        call = Call("alice", spec.name, account="alice", scope="work")
        return invoke(app.database, spec, {**made, "repository_path": str(path)}, call)

    assert create(known)["id"]
    assert create(tmp_path)["id"]
    with pytest.raises(NotAllowed) as refused:
        create(stranger)
    assert refused.value.code is Code.UNAUTHORIZED
