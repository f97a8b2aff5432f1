"""Search finds plans, tasks and checkpoints identically on every database."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.kernel.errors import Code
from plans.world import Plan, World, expect_error


def find_names(world: World, query: str, plan: Plan | None = None, **given: Any) -> list[tuple[str, str]]:
    """Search, in one plan if given; return kinds and names."""
    within = {"workflow_id": plan.id} if plan else {}
    results = world.call("workflow_search", query=query, **within, **given)["results"]
    return sorted((found["kind"], found["name"]) for found in results)


def make_word(world: World) -> str:
    """Return a word that was never used before."""
    return world.new_caller().replace("session:", "q")


def test_a_search_result_has_its_kind_ids_name_and_snippet(world: World):
    unheard = make_word(world)
    plan = world.create_plan(
        {"name": "Build", "description": "Long before. " * 20 + f"Then {unheard} comes."}
    )

    answer = world.call("workflow_search", query=unheard)

    [found] = answer["results"]
    assert answer["total"] == 1
    assert (found["kind"], found["id"], found["workflow_id"], found["name"]) == (
        "task",
        plan["Build"],
        plan.id,
        "Build",
    )
    assert set(found) == {"kind", "id", "workflow_id", "name", "snippet"}
    assert unheard in found["snippet"]
    assert len(found["snippet"]) <= 201


def test_every_text_field_is_searchable(world: World):
    said = {
        kind: make_word(world)
        for kind in (
            "name",
            "source",
            "summary",
            "approach",
            "task",
            "description",
            "outcome",
            "error",
            "note",
            "reason",
        )
    }
    id = world.create_workflow(name=f"Release {said['name']}", source_content=f"Please {said['source']}.")
    tasks = [
        {"name": f"Build {said['task']}", "description": said["description"]},
        {"name": "b"},
        {"name": "c"},
    ]
    world.call(
        "workflow_set_plan",
        id=id,
        plan={"summary": said["summary"], "approach": said["approach"], "tasks": tasks},
    )
    plan = Plan(world, id)
    first = f"Build {said['task']}"
    plan.set_status("b", "failed", error=f"It broke: {said['error']}")
    plan.set_status("c", "completed", outcome=f"{said['outcome']} works")
    world.call("checkpoint_add", task_id=plan[first], type="decision", summary=f"Took {said['note']}.")
    world.call("workflow_replan", workflow_id=id, reason=said["reason"], tasks=[{"name": "d"}])

    name = f"Release {said['name']}"
    for kind in ("name", "source", "summary", "approach", "reason"):
        assert find_names(world, said[kind]) == [("workflow", name)], kind
    assert find_names(world, said["task"]) == find_names(world, said["description"]) == [("task", first)]
    assert find_names(world, said["error"]) == [("task", "b")]
    assert find_names(world, said["outcome"]) == [("task", "c")]
    assert find_names(world, said["note"]) == [("checkpoint", first)], "started tasks are not replaced"


def test_a_checkpoint_result_contains_its_task(world: World):
    unheard = make_word(world)
    plan = world.create_plan("a")
    note = world.call("checkpoint_add", task_id=plan["a"], type="decision", summary=f"Use {unheard}.")

    [found] = world.call("workflow_search", query=unheard)["results"]

    assert (found["kind"], found["id"], found["task_id"]) == ("checkpoint", note["id"], plan["a"])
    assert (found["name"], found["snippet"]) == ("a", f"Use {unheard}.")


def test_the_summary_of_a_new_plan_is_searchable(world: World):
    unheard = make_word(world)
    plan = world.create_plan("a")

    world.call("workflow_replan", workflow_id=plan.id, reason="r", tasks=[{"name": "b"}], summary=unheard)

    assert find_names(world, unheard) == [("workflow", "release")]


def test_words_from_the_name_and_the_outcome_match_one_task(world: World):
    plan = world.create_plan("Login form")
    plan.set_status("Login form", "completed", outcome="Fixed the race.")

    assert find_names(world, "login race", plan) == [("task", "Login form")]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Refactor the Parser", "parser"),
        ("Refactor the Parser", "PARSER refactor"),
        ("Refactor the Parser", "pars"),
        ("Refactor the Parser", "refac pars"),
        ("Über die Straße", "uber strasse"),
        ("uber die strasse", "Über Straße"),
        ("Café crème brûlée", "cafe creme"),
        ("Cafe\u0301 crème", "café"),
        ("Đà Nẵng, Việt Nam", "nang viet"),
        ("Ёлка и майка", "елка маика"),
        ("Ελληνική γλώσσα", "ελληνικη"),
        ("ログイン画面を修正する", "画面"),
        ("ログイン画面を修正する", "ログイン 修正"),
        ("ｶﾀｶﾅ ｔｅｘｔ", "カタカナ text"),
        ("修复登录错误", "登录"),
        ("로그인 화면 수정", "화면"),
        ("แก้ไขหน้าเข้าสู่ระบบ", "หน้า"),
        ("नमस्ते दुनिया", "दुनिया"),
        ("مرحبا بالعالم", "بالعالم"),
        ("Edit src/foo_bar.py:42", "src/foo_bar.py"),
        ("Edit src/foo_bar.py:42", "foo_bar"),
        ("Edit src/foo_bar.py:42", "bar.py"),
        ("call get_user(id) -> User", "get_user(id)"),
        ("fix #1234 (e.g. v2.10.3)", "v2.10.3"),
        ("fix #1234 (e.g. v2.10.3)", "#1234"),
        ("C++ and 1e5 and 0x1F", "c++ 1e5 0x1f"),
        ("don't \"quote\" me", "don't \"quote\""),
        ("mail a.b@example.com now", "a.b@example.com"),
        ("https://example.com/a?b=c&d", "example.com/a?b=c"),
        ("emoji 🎉 party", "🎉 party"),
        ("x" * 300, "x" * 300),
        ("the and or not near", "AND OR NOT NEAR"),
    ],
)  # fmt: skip
def test_words_of_every_script_are_found_ignoring_case_and_accents(world: World, text: str, query: str):
    plan = world.create_plan({"name": "t", "description": text}, "other")

    assert find_names(world, query, plan) == [("task", "t")]


@pytest.mark.parametrize("query", ["parser lexer", "arser", "parserx", "源码", "ñ", "2.11"])
def test_words_that_do_not_occur_are_not_found(world: World, query: str):
    plan = world.create_plan({"name": "t", "description": "Refactor the Parser v2.10"})

    assert find_names(world, query, plan) == []


@pytest.mark.parametrize(
    "query",
    ["'", '"', "''", "*", "(", ")", "a AND", "NEAR(", "NOT", "-", "a:*", ":*", "&", "|", "!", "<->", "^a", "{}", "words:a", "%",
     "'; DROP TABLE plans; --", "\\", "\\'", "a' OR '1'='1", "\ud7ff", "_", " ", "\n", "a" * 5000, "a " * 500, "%s %(x)s :id"],
)  # fmt: skip
def test_hostile_queries_are_harmless(world: World, query: str):
    plan = world.create_plan("a")

    world.call("workflow_search", query=query, workflow_id=plan.id)

    assert plan.status == "ready"


def test_a_query_without_words_finds_nothing(world: World):
    assert world.call("workflow_search", query="?!…") == {"results": [], "total": 0}


def test_a_search_can_be_limited_to_a_workflow(world: World):
    unheard = make_word(world)
    one, two = world.create_plan(unheard), world.create_plan(unheard)

    assert world.call("workflow_search", query=unheard)["total"] == 2
    [found] = world.call("workflow_search", query=unheard, workflow_id=two.id)["results"]
    assert found["id"] == two[unheard] != one[unheard]


def test_several_matches_in_one_task_give_one_result(world: World):
    unheard = make_word(world)
    plan = world.create_plan({"name": unheard, "description": unheard})
    for _ in range(2):
        plan.set_status(unheard, "failed", error=f"{unheard} again")
        plan.set_status(unheard, "in_progress")

    assert world.call("workflow_search", query=unheard)["total"] == 1


def test_the_total_counts_results_beyond_the_limit(world: World):
    unheard = make_word(world)
    world.create_plan(*(f"{unheard} {number}" for number in range(30)))

    answer, few = (
        world.call("workflow_search", query=unheard),
        world.call("workflow_search", query=unheard, limit=3),
    )

    assert (len(answer["results"]), answer["total"]) == (20, 30)
    assert (len(few["results"]), few["total"]) == (3, 30)


def test_removed_tasks_are_neither_found_nor_counted(world: World):
    unheard = make_word(world)
    plan = world.create_plan(f"{unheard} one", f"{unheard} two", "c")

    world.call("workflow_remove_task", workflow_id=plan.id, task_id=plan[f"{unheard} one"])

    assert world.call("workflow_search", query=unheard)["total"] == 1
    assert find_names(world, unheard) == [("task", f"{unheard} two")]


def test_the_better_match_comes_first(world: World):
    unheard = make_word(world)
    plan = world.create_plan(
        {"name": "far", "description": "words " * 200 + unheard}, {"name": unheard, "description": unheard}
    )

    results = world.call("workflow_search", query=unheard, workflow_id=plan.id)["results"]

    assert [found["name"] for found in results] == [unheard, "far"]


@pytest.mark.parametrize("bad", [{"limit": 0}, {"limit": 201}, {"query": ""}])
def test_invalid_search_parameters_are_input_errors(world: World, bad: dict[str, Any]):
    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        world.call("workflow_search", **({"query": "x"} | bad))
