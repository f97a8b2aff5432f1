"""States in what commands print: the same words, reasons and next commands as everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.framework.applications import call_operation

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

Thing = dict[str, Any]


def name_state(state: str) -> str:
    """Return the word for people."""
    return state.replace("_", " ")


def show_states(things: list[Thing]) -> list[Thing]:
    """Return rows of a table for people: with the state in the place of the stored status, in words."""
    return [_show_state(thing) for thing in things]


def show_state(thing: Thing) -> Thing:
    """Return a thing for people: its state in the place of its status, then why, and what is next."""
    more = {key: thing[key] for key in ("because", "next") if thing.get(key)}
    return _show_state(thing) | more


def _show_state(thing: Thing) -> Thing:
    kept = {key: value for key, value in thing.items() if key not in ("state", "because", "next")}
    word = name_state(thing["state"])
    place = "stage" if "stage" in kept else "status"
    return {"state" if key == place else key: word if key == place else kept[key] for key in kept}


def show_listed(listed: str) -> Callable[[Thing, Mapping[str, Any]], Thing]:
    """Return what words an answer that lists things under this name for people."""
    return lambda answer, _: answer | {listed: show_states(answer[listed])}


def add_plan_state(app: Application, answer: Thing) -> Thing:
    """Add the states of a plan and of its tasks to its answer."""
    tasks = {"tasks": add_states(app, "task", answer["tasks"])} if answer.get("tasks") else {}
    return add_state_to("plan", app, answer) | tasks


def add_context_states(app: Application, answer: Thing) -> Thing:
    """Add the states of a tracked workflow and of its tasks to its answer."""
    tasks = {"tasks": add_states(app, "tracked_task", answer["tasks"])} if answer.get("tasks") else {}
    return add_state_to("record", app, answer, "workflow_id") | tasks


def add_state_to(kind: str, app: Application, answer: Thing, key: str = "id") -> Thing:
    """Add the state of a thing to its answer, which names it by `key`."""
    return add_states(app, kind, [answer], key)[0]


def add_list_states(kind: str, listed: str, key: str = "id") -> Callable[[Application, Thing], Thing]:
    """Return what adds states to the things that an answer lists under this name."""
    return lambda app, answer: answer | {listed: add_states(app, kind, answer[listed], key)}


def add_states(app: Application, kind: str, answers: list[Thing], key: str = "id") -> list[Thing]:
    """Add the states of things of one kind to their answers, which name them by `key`."""
    ids = [answer[key] for answer in answers]
    states = call_operation(app, "get_states", {"kind": kind, "ids": ids})["states"] if ids else {}
    return [answer | states.get(answer[key], {}) for answer in answers]
