"""Random plans, edits, landings, rewinds and undos agree with a model in memory.

The model knows what each task's tree and the target branch hold, and what each task's state is. It knows
nothing of git, journals or snapshots.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from application import Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from landing.make import LandingProject
from rewind.make import act, read_tree
from workspaces.make import commit, run_git

_TASKS = {"api": None, "ui": ["api"], "docs": []}
_FILES = ("a.txt", "b.txt", "c.txt")
Files = dict[str, str]


@dataclass
class ModelTask:
    """What a task is and holds, as far as a person sees it."""

    status: str = "pending"
    files: Files | None = None
    """The files of its tree; None before it has one."""
    start: Files = field(default_factory=dict)
    is_dirty: bool = False
    is_stale: bool = False
    holder: str | None = None
    landed: Files | None = None
    """What its landing changed on the target, while that counts."""


@dataclass
class World:
    """The model: tasks, and the files on the target branch."""

    tasks: dict[str, ModelTask]
    target: Files


class Machine:
    """Does the same in the program and in the model, and compares them."""

    def __init__(self, app: Application, project: Path, clock: Clock, seed: int) -> None:
        self._app, self._draw = app, random.Random(seed)
        self._landings = LandingProject(project, app, clock)
        self._plan = self._landings.plan(_TASKS)
        begin = {"a.txt": "one\n", ".gitignore": (project / ".gitignore").read_text()}
        self._model = World({name: ModelTask() for name in _TASKS}, begin)
        self._undoable: list[tuple[str, World]] = []
        self.log: list[str] = []

    def step(self) -> None:
        """Do something that is possible."""
        before = len(self.log)
        while len(self.log) == before:
            work = [self.claim, self.edit, self.edit, self.complete]
            self._draw.choice([*work, self.land, self.land, self.rewind, self.undo])()
        self.compare()

    # What agents and people do

    def claim(self) -> None:
        free = [name for name, task in self._model.tasks.items() if self._can_claim(name, task)]
        if not free:
            return
        name = self._draw.choice(free)
        task = self._model.tasks[name]
        self._plan.claim(name)
        self.log.append(f"claim {name}")
        task.holder = name
        if task.files is None:
            base = self._model.tasks["api"].files if name == "ui" else None
            began = read_tree(self._tree(name)) if base is None else base
            task.files = dict(began or {})
            task.start = dict(task.files)
        self._forget()

    def edit(self) -> None:
        name = self._draw_held()
        if name is None:
            return
        task, path = self._model.tasks[name], self._draw.choice(_FILES)
        text = f"{name} {len(self.log)}\n"
        (self._tree(name) / f"{name}-{path}").write_text(text)
        assert task.files is not None
        task.files[f"{name}-{path}"] = text
        task.is_dirty = True
        self.log.append(f"edit {name} {path}")

    def complete(self) -> None:
        name = self._draw_held()
        if name is None:
            return
        task = self._model.tasks[name]
        if task.is_dirty:
            commit(self._tree(name), name)
        self._plan.complete(name)
        task.status, task.holder, task.is_dirty = "completed", None, False
        self.log.append(f"complete {name}")
        self._forget()

    def land(self) -> None:
        ready = [name for name, task in self._model.tasks.items() if self._can_land(name, task)]
        if not ready:
            return
        name = self._draw.choice(ready)
        task = self._model.tasks[name]
        self._landings.land(task_id=self._plan.ids[name])
        task.landed = {path: text for path, text in (task.files or {}).items() if path.startswith(f"{name}-")}
        self._model.target |= task.landed
        self.log.append(f"land {name}")
        self._forget()

    def rewind(self) -> None:
        begun = [name for name, task in self._model.tasks.items() if _has_begun(task)]
        if not begun:
            return
        name, choice = self._draw.choice(begun), self._draw.choice(("keep", "reset"))
        before = copy.deepcopy(self._model)
        done = self._act("rewind_task", task_id=self._plan.ids[name], dependents=choice)
        self.log.append(f"rewind {name} {choice}: {done and done['id']}")
        if done is None:
            return
        self._rewind_one(name)
        if name == "api" and _has_begun(self._model.tasks["ui"]):
            if choice == "reset":
                self._rewind_one("ui", sets_aside=True)
            else:
                self._model.tasks["ui"].is_stale = True
        self._undoable.append((done["id"], before))

    def undo(self) -> None:
        if not self._undoable:
            return
        id, before = self._undoable.pop()
        done = self._act("undo_rewind", rewind_id=id)
        self.log.append(f"undo {id}: {done is not None}")
        assert done is not None, "nothing has changed since"
        for task in before.tasks.values():
            if task.holder is not None and task.status != "completed":
                task.status, task.holder = "pending", self._find_holder(before, task)
        self._model = before

    # Helpers

    def _rewind_one(self, name: str, *, sets_aside: bool = False) -> None:
        task = self._model.tasks[name]
        for path in task.landed or {}:
            self._model.target.pop(path, None)
        files = None if sets_aside else dict(task.start)
        self._model.tasks[name] = ModelTask(files=files, start=task.start)

    def _find_holder(self, before: World, task: ModelTask) -> str | None:
        """A task that was not changed by the rewind keeps its holder; one that was has none."""
        name = next(each for each in before.tasks if before.tasks[each] is task)
        return self._model.tasks[name].holder

    def _act(self, action: str, **arguments: Any) -> dict[str, Any] | None:
        try:
            done: dict[str, Any] = act(self._app, action, **arguments)
        except NotAllowed as refused:
            raise AssertionError(f"{self.log}: {refused}") from refused
        return done

    def _can_claim(self, name: str, task: ModelTask) -> bool:
        is_ready = name != "ui" or self._model.tasks["api"].status == "completed"
        return task.status == "pending" and task.holder is None and is_ready

    def _can_land(self, name: str, task: ModelTask) -> bool:
        is_first = name != "ui" or self._model.tasks["api"].landed is not None
        has_work = bool(task.files and any(path.startswith(f"{name}-") for path in task.files))
        return task.status == "completed" and task.landed is None and is_first and has_work

    def _draw_held(self) -> str | None:
        held = [name for name, task in self._model.tasks.items() if task.holder]
        return self._draw.choice(held) if held else None

    def _forget(self) -> None:
        """What happened since makes earlier rewinds impossible to undo; that is tested elsewhere."""
        self._undoable.clear()

    def _tree(self, name: str) -> Path:
        return Path(self._plan.claims[name]["workspace_path"])

    # The comparison

    def compare(self) -> None:
        for name, task in self._model.tasks.items():
            shown = call_tool(self._app, "task_get", id=self._plan.ids[name])
            assert shown["status"] == task.status, (self.log, name)
            assert ("stale_input" in shown) == task.is_stale, (self.log, name)
            assert shown.get("assigned_agent_id") is not None or task.holder is None, (self.log, name)
            if task.files is not None:
                assert read_tree(self._tree(name)) == task.files, (self.log, name)
        project = self._landings.folder
        names = run_git(project, "ls-tree", "-r", "--name-only", "main").splitlines()
        assert set(names) == set(self._model.target), self.log
        for path in names:
            if "-" in path:
                assert run_git(project, "show", f"main:{path}") == self._model.target[path].strip(), self.log


def _has_begun(task: ModelTask) -> bool:
    return task.status != "pending" or task.holder is not None


def test_random_histories_agree_with_the_model(app: Application, project: Path, clock: Clock) -> None:
    machine = Machine(app, project, clock, seed=4)

    for _ in range(45):
        machine.step()

    done = {line.split(" ")[0] for line in machine.log}
    assert done == {"claim", "edit", "complete", "land", "rewind", "undo"}
