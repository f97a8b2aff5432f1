import { expect, test } from "vitest";
import type { Envelope } from "../src/data/shapes";
import { collectNames, nameAgents, tell } from "../src/view/log";

const event = (seq: number, type: string, data: Record<string, unknown>): Envelope => ({ seq, type, data, ts: "2026-01-01T00:00:00Z", workflow_id: "wf_1" });
const names = new Map([["ag_1", "Ada"]]);

test("events of plans name the agent, not its id", () => {
  const claimed = event(1, "plan_task:claimed", { id: "tk_1", name: "design", assigned_agent_id: "ag_1" });
  const noted = event(2, "checkpoint:created", { task_id: "tk_1", summary: "drawn", agent_id: "ag_1" });

  expect([...nameAgents([claimed, noted], names)]).toEqual([[1, "Ada"], [2, "Ada"]]);
  expect(tell(claimed, "Ada", names)).toBe("Ada took “design”");
  expect(tell(noted, "Ada", new Map([["tk_1", "design"]]))).toBe("Ada on “design”: drawn");
});

test("an event that ends a claim names the agent that held the task", () => {
  const events = [
    event(1, "plan_task:claimed", { id: "tk_1", assigned_agent_id: "ag_1" }),
    event(2, "plan_task:released", { id: "tk_1" }),
    event(3, "plan_task:updated", { id: "tk_1", status: "skipped" }),
  ];

  expect([...nameAgents(events, names)]).toEqual([[1, "Ada"], [2, "Ada"]]);
});

test("an agent without a known name is shown by its id", () => {
  expect([...nameAgents([event(1, "checkpoint:created", { agent_id: "ag_2" })], names)]).toEqual([[1, "ag_2"]]);
});

test("sessions name their caller, unless it has no name", () => {
  const events = [event(1, "session:started", { caller: "ci" }), event(2, "session:started", { caller: "local" })];

  expect([...nameAgents(events, names)]).toEqual([[1, "ci"]]);
});

test("names come from the events themselves and from what the server knows", () => {
  const events = [event(1, "plan:created", { id: "wf_1", name: "Export" }), event(2, "attempt:started", { task_id: "tk_1", profile: "claude", stage: "running" })];
  const known = collectNames(events, { tk_1: "Write CSV" });

  expect(known.get("wf_1")).toBe("Export");
  expect(tell(events[1]!, undefined, known)).toBe("claude on “Write CSV”: running");
});

test("people are named without the prefix that the store gives them", () => {
  expect(tell(event(1, "approval:given", { title: "Export", decided_by: "human:owner" }), undefined, names)).toBe("owner approved “Export”");
});

test("an event of an unknown type still says what it is about", () => {
  expect(tell(event(1, "comet:seen", { name: "Halley", status: "in_sight" }), "Ada", names)).toBe("Ada: comet seen: Halley · in sight");
});
