/** What a person can do with a run and its tasks; buttons, keys and the palette offer the same. */

import { signal } from "@preact/signals";
import { registerActs, type Act, type ActResult, type Subject } from "../acts";
import { callTool } from "../data/api";
import { me } from "../data/live";
import type { RunDetails } from "../data/shapes";
import type { NowTask, RunHead } from "../data/shapes-run";
import { go, query, withQuery } from "../router";
import { dollars } from "../ui/parts";
import { suggestLimits } from "../view/forecast";

/** A run's plan, with the run of agents that works on it. */
export interface PlanThing {
  run: RunDetails;
  head: RunHead | null;
}

export type TaskThing = NowTask;

export const planSubject = (run: RunDetails, head: RunHead | null): Subject<PlanThing> => ({ kind: "plan", id: run.id, title: run.name, thing: { run, head } });
export const taskSubject = (task: TaskThing): Subject<TaskThing> => ({ kind: "plan-task", id: task.id, title: task.name, thing: task });

/** The dialog that is open: for a new task of a plan, or for other words of one. */
export type Editing = { kind: "add"; plan: string; isDriven: boolean } | { kind: "reword"; task: TaskThing };
export const editing = signal<Editing | null>(null);

const may = (tool: string): boolean => (me.value.actions ?? []).includes(tool);
const offers = (thing: PlanThing, tool: string): boolean => may(tool) && (thing.head?.actions ?? []).some((each) => each.tool === tool);
const isOpen = (task: NowTask): boolean => !["done", "landed", "stopped"].includes(task.state ?? "");
/** Whether an agent works on it, which is told or ended. */
export const isBusy = (task: NowTask): boolean => ["running", "parked"].includes(task.state ?? "") || Boolean(task.agent && task.state === "needs_you");
const change = (id: string, key: string, status: string, given: Record<string, unknown> = {}): Promise<unknown> => callTool("task_update_status", { id, status, ...given }, key);

const PLAN_ACTS: Act<PlanThing>[] = [
  {
    id: "plan.add",
    label: "Add a task",
    key: "n",
    applies: ({ kind, thing }) => kind === "plan" && thing.run.kind === "plan" && !["landed", "stopped"].includes(thing.run.state ?? "") && thing.run.status !== "completed" && may("workflow_add_task"),
    run: async ({ id, thing }) => {
      editing.value = { kind: "add", plan: id, isDriven: Boolean(thing.head) && !["done", "stopped", "failed"].includes(thing.head!.state ?? "") };
      return { text: "" };
    },
    stays: true,
  },
  {
    id: "plan.agents",
    label: "Agents",
    key: "#",
    applies: ({ kind, thing }) => kind === "plan" && may("set_run") && Boolean(thing.head && thing.head.agents > 0 && (thing.head.actions ?? []).some((each) => ["pause_run", "resume_run"].includes(each.tool))),
    prompt: ({ thing }) => `It starts up to ${thing.head!.agents} now. With fewer, those that work finish what they do.`,
    choices: ({ thing }) => Array.from({ length: Math.max(12, thing.head!.agents + 4) }, (_, index) => index + 1).filter((n) => n !== thing.head!.agents).map((n) => ({ value: String(n), label: `${n} at a time` })),
    run: async ({ thing }, _words, { key, choice }) => {
      const [before, head] = [thing.head!.agents, thing.head!];
      await callTool("set_run", { run_id: head.id, agents: Number(choice) }, key);
      return {
        text: `Up to ${choice} agents work at a time now; before, it was ${before}.`,
        undo: async () => {
          await callTool("set_run", { run_id: head.id, agents: before }, crypto.randomUUID());
          return `Up to ${before} agents work at a time again.`;
        },
      };
    },
    stays: true,
  },
  {
    id: "plan.raise",
    label: "Raise the limit",
    key: "r",
    applies: ({ kind, thing }) => kind === "plan" && may("set_run") && thing.head?.max_usd != null && (offers(thing, "set_run") || offers(thing, "pause_run") || offers(thing, "resume_run")),
    prompt: ({ thing }) => `It has spent ${dollars(thing.head!.usd ?? 0)} of ${dollars(thing.head!.max_usd!)}. How much may it cost in all?`,
    choices: ({ thing }) => suggestLimits(thing.head!.max_usd, thing.head!.usd ?? 0).map((amount) => ({ value: String(amount), label: dollars(amount) })),
    run: async ({ thing }, _words, { key, choice }) => {
      await callTool("set_run", { run_id: thing.head!.id, max_usd: Number(choice) }, key);
      return { text: `It may cost ${dollars(Number(choice))} in all now.` };
    },
    stays: true,
  },
  {
    id: "plan.pause",
    label: "Pause",
    key: "p",
    applies: ({ kind, thing }) => kind === "plan" && offers(thing, "pause_run"),
    run: async ({ thing }, _words, { key }) => {
      await callTool("pause_run", { run_id: thing.head!.id }, key);
      return {
        text: `Paused: no more agents start; ${thing.head!.working || "none"} that work finish what they do.`,
        undo: async () => {
          await callTool("resume_run", { run_id: thing.head!.id }, crypto.randomUUID());
          return "Resumed.";
        },
      };
    },
    stays: true,
  },
  {
    id: "plan.resume",
    label: "Resume",
    key: "p",
    isMain: true,
    applies: ({ kind, thing }) => kind === "plan" && offers(thing, "resume_run"),
    run: async ({ thing }, _words, { key }) => {
      await callTool("resume_run", { run_id: thing.head!.id }, key);
      return { text: "Resumed: agents start again." };
    },
    stays: true,
  },
  {
    id: "plan.stop",
    label: "Stop",
    isHarmful: true,
    applies: ({ kind, thing }) => kind === "plan" && offers(thing, "stop_run"),
    run: async ({ thing }, _words, { key }) => {
      await callTool("stop_run", { run_id: thing.head!.id }, key);
      return { text: "Stopping: nothing more starts, and the run ends when its agents have finished." };
    },
    stays: true,
  },
];

const TASK_ACTS: Act<TaskThing>[] = [
  {
    id: "plan-task.retry",
    label: "Try again",
    key: "t",
    isMain: true,
    needsWords: "optional",
    prompt: ({ thing }) => (thing.note ? `It failed: ${thing.note}\nWhat should the next agent know?` : "What should the next agent know?"),
    applies: ({ kind, thing }) => kind === "plan-task" && (thing.actions ?? []).some((each) => each.arguments.status === "pending") && may("task_update_status"),
    run: async ({ id, title }, words, { key, proof }) => {
      await change(id, key, "pending", { ...(words.trim() ? { outcome: words } : {}), ...(proof ? { proof } : {}) });
      return { text: `${title} is tried again${words.trim() ? ", with your hint" : ""}.` };
    },
  },
  {
    id: "plan-task.reword",
    label: "Reword",
    key: "w",
    applies: ({ kind, thing }) => kind === "plan-task" && isOpen(thing) && may("reword_task"),
    run: async ({ thing }) => {
      editing.value = { kind: "reword", task: thing };
      return { text: "" };
    },
    stays: true,
  },
  {
    id: "plan-task.drop",
    label: ({ thing }) => (isBusy(thing) ? "Drop, and end its agent" : "Drop"),
    key: "D",
    isHarmful: true,
    needsWords: "optional",
    prompt: ({ thing }) =>
      [isBusy(thing) ? "Its agent is ended; what it did stays in its tree." : "", thing.blocks ? `${thing.blocks} ${thing.blocks === 1 ? "task waits" : "tasks wait"} for it: if it has begun, they start without its work; if not, they wait for what it waited for.` : "", "Why is it not to be done?"].filter(Boolean).join(" "),
    applies: ({ kind, thing }) => kind === "plan-task" && isOpen(thing) && may("drop_task"),
    run: async ({ id, title, thing }, words, { key, proof }): Promise<ActResult> => {
      const given = { task_id: id, end_agent: isBusy(thing), ...(words.trim() ? { reason: words } : {}), ...(proof ? { proof } : {}) };
      const answer = (await callTool("drop_task", given, key)) as { removed: boolean; ended?: string; waiting: string[] };
      if (answer.removed && query.peek().get("task") === id) go(withQuery({ task: null })); // there is nothing to show any more
      const waiting = answer.waiting.length ? ` ${answer.waiting.slice(0, 3).join(", ")}${answer.waiting.length > 3 ? " and others" : ""} ${answer.removed ? "wait for what it waited for" : "can start"}.` : "";
      return { text: `${title} ${answer.removed ? "is out of the plan" : "is skipped"}${answer.ended ? "; its agent is ended" : ""}.${waiting}` };
    },
  },
];

registerActs(...PLAN_ACTS, ...TASK_ACTS);
