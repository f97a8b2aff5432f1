import { expect, test } from "vitest";
import type { Envelope } from "../src/data/shapes";
import { applyEvents, buildTable, type TaskTable } from "../src/data/tasks";

const COLUMNS = ["id", "name", "status", "phase", "parent_id", "agent_name", "started_at", "completed_at", "files", "decisions", "issues", "milestone", "progress", "is_stale", "is_blocked"];
const row = (id: string, status = "in_progress", phase = 1) => [id, id, status, phase, null, "Ada", "2026-01-01T00:00:00Z", null, 0, 0, 0, null, null, false, false];

const table = (...ids: string[]): TaskTable => buildTable({ columns: COLUMNS, rows: ids.map((id) => row(id)), total: ids.length }, 10);
const event = (seq: number, type: string, data: Record<string, unknown>, run = "tw_1"): Envelope => ({ seq, ts: "2026-01-01T00:00:05Z", type, workflow_id: run, data });
const find = (where: TaskTable, id: string) => where.rows[where.at.get(id)!]!;

test("a task that ends is shown as ended", () => {
  const { table: after, refetch } = applyEvents(table("a", "b"), [event(11, "task:updated", { id: "a", status: "success", completed_at: "2026-01-01T00:01:00Z", files_changed: { added: 1, modified: 2, deleted: 0 } })], "tw_1");

  expect(find(after, "a")).toMatchObject({ status: "success", ended: Date.parse("2026-01-01T00:01:00Z"), files: 3 });
  expect(find(after, "b").status).toBe("in_progress");
  expect(refetch).toBe(true);
});

test("events that the table already includes change nothing", () => {
  const before = table("a");

  expect(applyEvents(before, [event(10, "task:updated", { id: "a", status: "failed" })], "tw_1").table).toBe(before);
});

test("events of other runs change nothing", () => {
  const before = table("a");

  expect(applyEvents(before, [event(11, "task:updated", { id: "a", status: "failed" }, "tw_2")], "tw_1").table).toBe(before);
});

test("a new task is shown immediately in its parent's phase, and the table is refetched", () => {
  const { table: after, refetch } = applyEvents(table("a"), [event(11, "task:created", { id: "new", name: "New", status: "in_progress", parent_task_id: "a" })], "tw_1");

  expect(find(after, "new")).toMatchObject({ name: "New", parent: "a", phase: 1 });
  expect(refetch).toBe(true);
});

test("a milestone updates the row and adds a mark to its bar", () => {
  const { table: after } = applyEvents(table("a"), [event(11, "milestone:created", { task_id: "a", message: "half", progress: 50 })], "tw_1");

  expect(find(after, "a")).toMatchObject({ milestone: "half", progress: 50 });
  expect(after.marks.get("a")).toEqual([{ at: Date.parse("2026-01-01T00:00:05Z"), kind: "milestone", text: "half" }]);
});

test("an event of a task that is not in the table causes a refetch", () => {
  expect(applyEvents(table("a"), [event(11, "task:updated", { id: "other", status: "failed" })], "tw_1").refetch).toBe(true);
});

test("a thousand updates leave the other rows untouched", () => {
  const before = table(...Array.from({ length: 1000 }, (_, index) => `t${index}`));
  const events = Array.from({ length: 1000 }, (_, index) => event(11 + index, "task:updated", { id: "t7", status: index % 2 ? "failed" : "success" }));

  const { table: after } = applyEvents(before, events, "tw_1");

  expect(after.seq).toBe(1010);
  expect(find(after, "t8")).toBe(find(before, "t8"));
});
