"""Draws calls from the JSON Schemas of tools: some valid, some with something wrong."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

TEXTS = (
    "a", "step one", "first", "second", "chain", "main", "src/a.py", "src/*.py", "../beside", "main~1", "HEAD", "-x",
    "--output=x", "é" * 50, "x" * 201, "x" * 2000, "", " ", "\n", "null", "{{name}}", "{0.__class__}", "'; DROP TABLE agents; --",
    "\u202e\u200b\ufeff", "\U0001f680", "\x00", "\ud800", "\x1b[2J", "%s%n", "tk_000000000000", "2026-01-01T00:00:00Z",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 5, 100, 1000, 2**31, 2**53, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 100.0)
KINDS_BY_NAME = {
    "workflow_id": ("wf", "tw"), "from_workflow_id": ("wf",), "task_id": ("tk", "tt"), "current_task_id": ("tk",),
    "task_ids": ("tk",), "agent_id": ("ag",), "sender_id": ("ag",), "recipient_id": ("ag",), "message_ids": ("msg",),
    "reply_to_id": ("msg",), "thread_id": ("thr",), "workspace_id": ("ws",), "template_id": ("tmpl",), "phase_id": ("ph",),
    "parent_task_id": ("tt",), "issue_id": ("is",), "review_id": ("rv",), "session_id": ("session",),
}  # fmt: skip
KINDS_BY_TOOL = {
    "agent": ("ag",),
    "workflow": ("wf",),
    "task": ("tk",),
    "message": ("msg",),
    "workspace": ("ws",),
}
TRACKING = {"workflow_id": ("tw",), "task_id": ("tt",)}
"""In the tools of tracking the same names mean other things."""
TRACKING_TOOLS = (
    "start_phase", "start_task", "complete_phase", "complete_task", "abandon_task", "complete_workflow",
)  # fmt: skip
KEPT = 10

_ID = re.compile(r'"((?:wf|tk|cp|ws|rp|tmpl|ag|msg|thr|tw|ph|tt|dc|is|ml|rv)_[0-9a-z]{12})"')
_SESSION = re.compile(r'"session_id": ?"(\w{8})"')


class CallDrawer:
    """Draws calls; ids come from earlier answers, so that many calls reach the work behind the checks."""

    def __init__(
        self, schemas: dict[str, Schema], chance: random.Random, paths: tuple[str, ...] = ()
    ) -> None:
        """`paths`: values for parameters that want a path."""
        self._schemas, self._chance, self._paths = schemas, chance, paths
        self._ids: dict[str, list[str]] = defaultdict(list)
        self._order: list[str] = []
        self.called: Counter[str] = Counter()

    def learn_ids(self, answer: str) -> None:
        """Remember the ids in an answer, the newest of each kind."""
        for id in _ID.findall(answer):
            self._keep(id.partition("_")[0], id)
        for id in _SESSION.findall(answer):
            self._keep("session", id)

    def draw_call(self) -> tuple[str, Any]:
        """Draw the next call: every tool once, in random order, then again."""
        if not self._order:
            self._order = self._chance.sample(sorted(self._schemas), len(self._schemas))
        tool = self._order.pop()
        self.called[tool] += 1
        arguments = self._draw_object(self._schemas[tool], tool)
        if self._chance.random() < 0.4:
            arguments = self._break(arguments)
        return tool, arguments

    def _keep(self, kind: str, id: str) -> None:
        kept = self._ids[kind]
        if id not in kept:
            kept.append(id)
            del kept[:-KEPT]

    def _draw_object(self, schema: Schema, tool: str) -> dict[str, Any]:
        required = set(schema.get("required", ()))
        return {
            name: self._draw(each, name, tool)
            for name, each in schema.get("properties", {}).items()
            if name in required or self._chance.random() < 0.35
        }

    def _draw(self, schema: Schema, name: str, tool: str) -> Any:
        if "anyOf" in schema:
            return self._draw(self._chance.choice(schema["anyOf"]), name, tool)
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        kind = schema.get("type", "string")
        kind = self._chance.choice(kind) if isinstance(kind, list) else kind
        drawers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._draw_object(schema, tool) or self._draw_free_object(),
            "array": lambda: [
                self._draw(schema.get("items", {}), name, tool)
                for _ in range(max(schema.get("minItems", 0), self._chance.randrange(4)))
            ],
            "integer": lambda: self._draw_integer(schema),
            "number": lambda: self._draw_integer(schema) + self._chance.choice([0, 0.25]),
            "boolean": lambda: self._chance.random() < 0.5,
            "null": lambda: None,
            "string": lambda: self._draw_text(name, tool),
        }
        return drawers[kind]()

    def _draw_integer(self, schema: Schema) -> int:
        least, most = int(schema.get("minimum", 0)), int(schema.get("maximum", 1000))
        # Not the longest waits: a call may wait for a change as long as it was asked to.
        return self._chance.choice(
            [least, min(least + 1, most), self._chance.randint(least, min(most, least + 3))]
        )

    def _draw_free_object(self) -> dict[str, Any]:
        return {self._chance.choice(TEXTS): self._chance.choice([1, "x", None, [], {"a": {"b": 1}}])}

    def _draw_text(self, name: str, tool: str) -> str:
        if "path" in name and self._paths and self._chance.random() < 0.7:
            return self._chance.choice(self._paths)
        kinds = _find_kinds(name, tool)
        known = [id for kind in kinds for id in self._ids[kind]]
        if known and self._chance.random() < 0.9:
            return self._chance.choice(known)
        if (
            kinds
            and (others := [id for each in self._ids.values() for id in each])
            and self._chance.random() < 0.5
        ):
            return self._chance.choice(others)
        plain = self._chance.choice(TEXTS[:8]) if self._chance.random() < 0.6 else self._chance.choice(TEXTS)
        return f"{plain} {self._chance.randrange(10**6)}" if name == "name" and plain else plain

    def _break(self, arguments: dict[str, Any]) -> Any:
        """Change one thing: drop, rename, retype, add, or replace by an odd value; rarely all of it."""
        names = sorted(arguments)
        odd = self._draw_odd()
        if not names:
            return {"unknown": odd} if self._chance.random() < 0.9 else odd
        name = self._chance.choice(names)
        rest = {key: value for key, value in arguments.items() if key != name}
        broken = [
            rest,
            {**rest, f"{name}s": arguments[name]},
            {**rest, name.upper(): arguments[name]},
            {**rest, name: odd},
            {**rest, name: [arguments[name]]},
            {**rest, name: {"value": arguments[name]}},
            {**rest, name: str(arguments[name])},
            {**rest, name: None},
            {**rest, name: self._deepen(arguments[name])},
            {**arguments, self._chance.choice(TEXTS): odd},
        ]
        return self._chance.choice(broken)

    def _deepen(self, value: Any) -> Any:
        """Change something inside a nested value."""
        if isinstance(value, dict) and value:
            name = self._chance.choice(sorted(value))
            return {**value, name: self._deepen(value[name])}
        if isinstance(value, list) and value:
            return [*value[:-1], self._deepen(value[-1])]
        return self._draw_odd()

    def _draw_odd(self) -> Any:
        nested: Any = "deep"
        for _ in range(self._chance.choice([1, 3, 70, 300])):
            nested = [nested]
        odd = [
            *self._chance.sample(TEXTS, 3), *self._chance.sample(NUMBERS, 2), True, None, [], {}, nested, "x" * 1_200_000,
            [[]] * 50, ["a"] * 10_001, {"": 1}, {"__proto__": {"x": 1}}, json.dumps({"id": 1}),
        ]  # fmt: skip
        return self._chance.choice(odd)


def _find_kinds(name: str, tool: str) -> tuple[str, ...]:
    """Return the kinds of ids that a parameter wants."""
    if name == "id":
        return KINDS_BY_TOOL.get(tool.partition("_")[0], ())
    if tool in TRACKING_TOOLS and name in TRACKING:
        return TRACKING[name]
    return KINDS_BY_NAME.get(name, ())
