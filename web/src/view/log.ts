/** Events as lines of the log: sentences that say who did what to which. */

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
    const given = data.agent_name ?? data.agent_id ?? data.assigned_agent_id ?? data.sender_id ?? (type.startsWith("agent:") ? data.name : undefined);
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

/** The names that events themselves tell: of tasks, runs and agents, by id. */
export function collectNames(events: readonly Envelope[], known: Record<string, string>): Map<string, string> {
  const names = new Map(Object.entries(known));
  for (const { type, data } of events) {
    const id = text(data.id);
    const name = text(data.name);
    if (id && name && /^(plan|plan_task|task|workflow|agent):/.test(type)) names.set(id, name);
  }
  return names;
}

type Tell = (data: Record<string, unknown>, who: string, name: (id: unknown) => string) => string;

const quote = (words: unknown): string => (text(words) ? `“${String(words).trim()}”` : "");
const human = (words: unknown): string => String(words ?? "").replaceAll("_", " ");
const person = (who: unknown): string => (text(who) ? (NAMELESS.includes(String(who)) ? "Somebody" : String(who).replace(/^human:/, "")) : "Somebody");
const because = (reason: unknown): string => (text(reason) ? `: ${String(reason)}` : "");
const status: Tell = (data, who) => `${quote(data.name)} is ${human(data.status)}${who ? ` (${who})` : ""}${because(data.summary ?? data.outcome)}`;
const attempt: Tell = (data, _, name) => `${text(data.profile) ?? "An agent"} on ${quote(name(data.task_id))}: ${human(data.stage)}${data.stage === "parked" && data.parked_for ? ` for ${human(data.parked_for)}` : ""}${because(data.now_doing && data.stage === "running" ? data.now_doing : data.reason)}`;
const approval = (verb: string): Tell => (data) => `${person(data.decided_by)} ${verb} ${quote(data.title ?? data.subject_id)}${because(data.comment)}`;
const landing: Tell = (data) => `The landing of ${quote(data.title ?? data.task_id)} is ${human(data.status)}${because(data.status === "landed" ? undefined : data.reason)}`;
const session: Tell = (data) => `The job ${quote(`${data.job_name as string}/${data.workflow_name as string}`)} is at ${quote(data.current_step_id)}`;

/** A sentence for each type of event; what is missing here is summarized from its data. */
const SENTENCES: Record<string, Tell> = {
  "workflow:created": (data) => `Tracked work began: ${quote(data.name)}`,
  "workflow:updated": (data) => `${quote(data.name)} is ${human(data.status)}`,
  "phase:created": (data) => `The phase ${quote(data.phase_name)} began`,
  "phase:updated": (data) => `The phase ${quote(data.phase_name)} is ${human(data.status)}`,
  "task:created": (data, who) => `${who || "Somebody"} began ${quote(data.name)}`,
  "task:updated": status,
  "decision:created": (data, who) => `${who || "Somebody"} decided ${quote(data.question)}: ${String(data.chosen)}`,
  "issue:created": (data, who) => `${who || "Somebody"} found a problem: ${String(data.description)}`,
  "issue:resolved": (data) => `${person(data.resolved_by)} resolved ${quote(data.description)}${because(data.resolution_note)}`,
  "milestone:created": (data, who) => `${who || "Somebody"} on ${quote(data.task_name)}: ${String(data.message)}`,
  "plan:created": (data) => `${person(data.created_by)} created the plan ${quote(data.name)}`,
  "plan:updated": (data) => `The plan ${quote(data.name)} is ${human(data.status)}`,
  "plan_task:created": (data) => `The task ${quote(data.name)} was added`,
  "plan_task:removed": (data) => `The task ${quote(data.name)} was removed`,
  "plan_task:claimed": (data, who) => `${who || "Somebody"} took ${quote(data.name)}`,
  "plan_task:released": (data, who) => `${who || "Somebody"} released ${quote(data.name)}`,
  "plan_task:updated": status,
  "checkpoint:created": (data, who, name) => `${who || "Somebody"} on ${quote(name(data.task_id))}: ${String(data.summary)}`,
  "agent:registered": (data) => `The agent ${quote(data.name)} registered`,
  "agent:updated": (data) => `The agent ${quote(data.name)} is ${human(data.status)}`,
  "agent:unregistered": (data) => `The agent ${quote(data.name)} left`,
  "message:created": (data, who, name) => `${who || person(name(data.sender_id))} wrote to ${name(data.recipient_id)}: ${String(data.subject ?? data.body ?? "")}`,
  "run:started": (data, _, name) => `${person(data.created_by)} started agents on ${quote(name(data.workflow_id) || data.job)}`,
  "run:updated": (data, _, name) => `The run of ${quote(name(data.workflow_id) || data.job)} is ${human(data.status)}${because(data.reason)}`,
  "run:ended": (data, _, name) => `The run of ${quote(name(data.workflow_id) || data.job)} ended, ${human(data.status)}${because(data.reason)}`,
  "attempt:started": attempt,
  "attempt:updated": attempt,
  "attempt:progress": attempt,
  "attempt:ended": attempt,
  "check:started": (data) => `The check ${quote(data.check)} started`,
  "check:finished": (data) => `The check ${quote(data.check)} ${human(data.verdict)}`,
  "check:waived": (data) => `${person(data.by)} waived the check ${quote(data.check)}`,
  "approval:asked": (data) => `${person(data.asked_by)} asks to approve ${quote(data.title ?? data.subject_id)}`,
  "approval:given": approval("approved"),
  "approval:refused": approval("refused"),
  "approval:used": (data) => `The approval of ${quote(data.title ?? data.subject_id)} was used`,
  "approval:stale": (data) => `The approval of ${quote(data.title ?? data.subject_id)} is outdated: what it was for changed`,
  "approval:expired": (data) => `The approval of ${quote(data.title ?? data.subject_id)} expired`,
  "landing:queued": landing,
  "landing:updated": landing,
  "landing:ended": landing,
  "spending:recorded": (data, _, name) => `${quote(name(data.task_id))} spent ${String(data.message)}`,
  "session:started": session,
  "session:updated": session,
  "session:completed": (data) => `The job ${quote(`${data.job_name as string}/${data.workflow_name as string}`)} is completed`,
  "session:aborted": (data) => `The job ${quote(`${data.job_name as string}/${data.workflow_name as string}`)} was aborted${because(data.reason ?? data.abort_reason)}`,
  "review:passed": (data) => `The review ${quote(data.review ?? data.step_id)} passed`,
  "review:failed": (data) => `The review ${quote(data.review ?? data.step_id)} did not pass${because(data.feedback)}`,
  "repository:registered": (data) => `The repository ${quote(data.name)} was registered`,
};

/** An event as one sentence. */
export function tell(event: Envelope, who: string | undefined, names: ReadonlyMap<string, string>): string {
  const name = (id: unknown): string => names.get(String(id)) ?? text(id) ?? "";
  const sentence = SENTENCES[event.type]?.({ workflow_id: event.workflow_id, ...event.data }, who ?? "", name) ?? summarize(event, who);
  return sentence.replace(/\s+/g, " ").slice(0, 400);
}

/** What an event of another type says, from the texts in it. */
function summarize({ type, data }: Envelope, who: string | undefined): string {
  const parts = [data.name, data.title, data.message, data.summary, data.reason, data.description, human(data.status), human(data.stage)];
  const words = [...new Set(parts.filter((part): part is string => typeof part === "string" && part !== ""))].join(" · ");
  return `${who ? `${who}: ` : ""}${human(type.replace(":", " "))}${words ? `: ${words}` : ""}`;
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);

const namedCaller = (value: unknown): string | undefined => (NAMELESS.includes(String(value)) ? undefined : text(value));
