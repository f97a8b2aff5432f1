/** The words of an item of the inbox, and where one goes from it. */

import type { InboxItem } from "../data/shapes-inbox";

export const SHOWS = ["open", "snoozed", "given", "cleared"] as const;
export type Show = (typeof SHOWS)[number];

/** How the state of an item is drawn: its kind, except where a landing or a parked agent has a state of its own. */
export const lookOf = (kind: string): string => ({ landing: "landing_need", parked_attempt: "needs_you" })[kind] ?? kind;

const KINDS: Record<string, string> = {
  agent_run: "Stopped run",
  approval: "Approval",
  blocker: "Question",
  budget: "Budget used up",
  failed_task: "Failed task",
  gate: "Job step",
  landing: "Landing",
  lost_claim: "Agent gone",
  manual_review: "Review wanted",
  parked_attempt: "Agent waits",
  review: "Review",
  stale_task: "Silent task",
  waiting_plan: "Paused plan",
};
export const nameKind = (kind: string): string => KINDS[kind] ?? kind.replaceAll("_", " ");
export const KIND_OPTIONS: [string, string][] = Object.entries(KINDS).sort((a, b) => a[1].localeCompare(b[1]));

/** "blocks 2 agents, 5 tasks"; empty if nothing waits. */
export function describeBlocked(item: Pick<InboxItem, "agents" | "tasks">): string {
  const counted: [number, string][] = [[item.agents, "agent"], [item.tasks ?? 0, "task"]];
  const said = counted.filter(([n]) => n > 0).map(([n, noun]) => `${n.toLocaleString()} ${noun}${n === 1 ? "" : "s"}`);
  return said.length ? `blocks ${said.join(", ")}` : "";
}

/** The page of the thing itself. */
export function placeOf(item: InboxItem): string | null {
  if (item.kind === "approval") return `/approvals/${item.about}`;
  if (item.kind === "landing") return `/landings/${item.about}`;
  if (item.kind === "agent_run") return `/work/${item.about}`;
  if (item.task) return `/tasks/${encodeURIComponent(item.task.id)}`;
  return item.run ? `/runs/${encodeURIComponent(item.run.id)}` : null;
}

/** The times that one can snooze until, as the person's clock has them. */
export function snoozeTimes(now: Date): { value: string; label: string }[] {
  const at = (days: number, hour: number): Date => new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);
  const toMonday = ((8 - now.getDay()) % 7) || 7;
  const times: [string, Date][] = [
    ["for an hour", new Date(now.getTime() + 3_600_000)],
    ["for three hours", new Date(now.getTime() + 3 * 3_600_000)],
    ["until tomorrow, 9:00", at(1, 9)],
    ["until Monday, 9:00", at(toMonday, 9)],
    ["for a month", at(30, 9)],
  ];
  return times.map(([label, time]) => ({ label, value: time.toISOString() }));
}

/** An amount as a person types it: "20", "$20", "20.50"; null if it is none. */
export function parseAmount(text: string): number | null {
  const found = /^\$?\s*(\d+(?:[.,]\d{1,2})?)$/.exec(text.trim());
  const amount = found ? Number(found[1]!.replace(",", ".")) : NaN;
  return amount > 0 ? amount : null;
}

/** The item to go to from one: the next that is not decided, else the one before. */
export function findNext(ids: readonly string[], from: string | null, isOpen: (id: string) => boolean): string | null {
  const at = from === null ? -1 : ids.indexOf(from);
  return ids.slice(at + 1).find(isOpen) ?? ids.slice(0, Math.max(0, at)).reverse().find(isOpen) ?? null;
}
