/** Events as lines of the log: who did what. */

import type { Envelope } from "../data/shapes";

/** Callers that are not the name of anybody. */
const NAMELESS = ["local", "anonymous"];

/**
 * Returns the name of the agent of each event, by number. Events of plans contain only its id.
 * A task that ends or is released has no agent any more, so the one that held it before is named.
 */
export function nameAgents(events: readonly Envelope[], names: ReadonlyMap<string, string>): Map<number, string> {
  const found = new Map<number, string>();
  const holders = new Map<string, string>();
  for (const { seq, type, data } of events) {
    const isTask = type.startsWith("plan_task:");
    const task = String(data.id ?? "");
    const given = data.agent_name ?? data.agent_id ?? data.assigned_agent_id;
    const held = isTask ? holders.get(task) : undefined;
    const who = text(given) ?? held ?? namedCaller(data.caller);
    if (isTask) {
      if (text(given)) holders.set(task, text(given)!);
      else holders.delete(task);
    }
    if (who) found.set(seq, names.get(who) ?? who);
  }
  return found;
}

/** Summarizes an event in one line. */
export function summarize(event: Envelope, who: string | undefined): string {
  const { data } = event;
  const parts = [data.name, data.phase_name, data.task_name, data.message, data.summary, data.now_doing, data.reason, data.question, data.chosen && `→ ${data.chosen as string}`, data.description, data.step_id, typeof data.status === "string" && data.status.replaceAll("_", " "), typeof data.stage === "string" && data.stage.replaceAll("_", " ")];
  const words = parts.filter((part) => typeof part === "string" && part).map(String);
  return `${who ? `${who}: ` : ""}${[...new Set(words)].join(" · ")}`.slice(0, 400);
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);

const namedCaller = (value: unknown): string | undefined => (NAMELESS.includes(String(value)) ? undefined : text(value));
