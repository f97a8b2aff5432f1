import { expect, test } from "vitest";
import type { Phase } from "../src/data/shapes";
import type { TaskRow } from "../src/data/tasks";
import { rowsOf, getDisplayStatus, type TreeOptions } from "../src/view/tree";

const task = (id: string, given: Partial<TaskRow> = {}): TaskRow => ({
  id, name: id, status: "in_progress", phase: 1, parent: null, agent: "Ada", started: 0, ended: null, files: 0, decisions: 0, issues: 0,
  milestone: null, progress: null, isStale: false, isBlocked: false, state: null, because: null, ...given,
});
const phase = (number: number): Phase => ({ number, name: `P${number}`, status: "in_progress", tasks: { total: 0, completed: 0, failed: 0, in_progress: 0 } });
const options = (given: Partial<TreeOptions> = {}): TreeOptions => ({ groupBy: "phase", folded: new Set(), failuresOnly: false, words: "", status: "", ...given });
const keys = (rows: { key: string; level: number }[]) => rows.map((row) => `${" ".repeat(row.level - 1)}${row.key}`);

test("phases contain their tasks, and tasks their subtasks", () => {
  const rows = rowsOf([task("a"), task("b", { parent: "a" }), task("c", { phase: 2 })], [phase(1), phase(2)], options());

  expect(keys(rows)).toEqual(["phase:1", " a", "  b", "phase:2", " c"]);
});

test("a phase that has not started is included", () => {
  expect(keys(rowsOf([], [phase(1), phase(2)], options()))).toEqual(["phase:1", "phase:2"]);
});

test("a folded row hides its children", () => {
  const tasks = [task("a"), task("b", { parent: "a" })];

  expect(keys(rowsOf(tasks, [phase(1)], options({ folded: new Set(["a"]) })))).toEqual(["phase:1", " a"]);
  expect(keys(rowsOf(tasks, [phase(1)], options({ folded: new Set(["phase:1"]) })))).toEqual(["phase:1"]);
});

test("a filter keeps the ancestors of matching tasks", () => {
  const rows = rowsOf([task("a"), task("b", { parent: "a", status: "failed" }), task("c")], [phase(1)], options({ failuresOnly: true }));

  expect(keys(rows)).toEqual(["phase:1", " a", "  b"]);
});

test("a filter hides phases without matching tasks", () => {
  const tasks = [task("a", { agent: "Zoe" }), task("b", { phase: 2, status: "failed" })];

  expect(keys(rowsOf(tasks, [phase(1), phase(2), phase(3)], options({ failuresOnly: true })))).toEqual(["phase:2", " b"]);
  expect(keys(rowsOf(tasks, [phase(1), phase(2), phase(3)], options({ words: "zoe" })))).toEqual(["phase:1", " a"]);
  expect(keys(rowsOf(tasks, [phase(1), phase(2), phase(3)], options({ words: " " })))).toEqual(["phase:1", " a", "phase:2", " b", "phase:3"]);
});

test("tasks can be grouped by agent", () => {
  const rows = rowsOf([task("a", { agent: "Zoe" }), task("b"), task("c", { agent: null })], [], options({ groupBy: "agent" }));

  expect(keys(rows)).toEqual(["agent:Ada", " b", "agent:", " c", "agent:Zoe", " a"]);
});

test("a task that is its own ancestor does not hang the page", () => {
  expect(() => rowsOf([task("a", { parent: "b" }), task("b", { parent: "a" })], [phase(1)], options({ words: "a" }))).not.toThrow();
});

test("a task is shown with the state that the server gave it, or with its status until it has", () => {
  expect(getDisplayStatus(task("a", { status: "in_progress", state: "needs_you" }))).toBe("needs_you");
  expect(getDisplayStatus(task("a", { status: "in_progress", state: null }))).toBe("in_progress");
});
