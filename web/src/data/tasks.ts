/** The tasks of a run as a table of thousands of rows that events keep up to date. */

import type { Envelope, TasksAnswer } from "./shapes";

export interface TaskRow {
  id: string;
  name: string;
  status: string;
  phase: number | null;
  parent: string | null;
  agent: string | null;
  started: number | null;
  ended: number | null;
  files: number;
  decisions: number;
  issues: number;
  milestone: string | null;
  progress: number | null;
  isStale: boolean;
  isBlocked: boolean;
  /** As the server judges it; null after an event, until the table is read again. */
  state: string | null;
  because: string | null;
}

export interface TaskTable {
  rows: TaskRow[];
  at: Map<string, number>;
  seq: number;
  total: number;
  /** Milestones and issues received while the page is open, by task. */
  marks: Map<string, Mark[]>;
}

export interface Mark {
  at: number;
  kind: "milestone" | "blocker";
  text: string;
}

export function buildTable(answer: TasksAnswer, seq: number): TaskTable {
  const column = new Map(answer.columns.map((name, index) => [name, index]));
  const rows = answer.rows.map((row) => {
    const get = (name: string) => row[column.get(name) ?? -1];
    return {
      id: String(get("id")),
      name: text(get("name")) ?? String(get("id")),
      status: text(get("status")) ?? "pending",
      phase: number(get("phase")),
      parent: text(get("parent_id")),
      agent: text(get("agent_name")),
      started: parseTime(get("started_at")),
      ended: parseTime(get("completed_at")),
      files: number(get("files")) ?? 0,
      decisions: number(get("decisions")) ?? 0,
      issues: number(get("issues")) ?? 0,
      milestone: text(get("milestone")),
      progress: number(get("progress")),
      isStale: Boolean(get("is_stale")),
      isBlocked: Boolean(get("is_blocked")),
      state: text(get("state")),
      because: text(get("because")),
    } satisfies TaskRow;
  });
  return { rows, at: indexById(rows), seq, total: Math.max(answer.total, rows.length), marks: new Map() };
}

/**
 * Returns the table after these events; the same object if they change nothing.
 * `refetch` is true if an event contains too little to update the table.
 */
export function applyEvents(table: TaskTable, events: Envelope[], run: string): { table: TaskTable; refetch: boolean } {
  const mine = events.filter((event) => event.seq > table.seq && event.workflow_id === run);
  if (mine.length === 0) return { table, refetch: false };
  const rows = table.rows.slice();
  let at = table.at;
  let refetch = false;
  const marks = new Map(table.marks);
  for (const event of mine) {
    const data = event.data;
    const change = (id: string, to: Partial<TaskRow>) => {
      const index = at.get(id);
      if (index === undefined) refetch = true;
      else rows[index] = { ...rows[index]!, ...to };
    };
    const mark = (id: string, kind: Mark["kind"], words: string) =>
      marks.set(id, [...(marks.get(id) ?? []).slice(-20), { at: Date.parse(event.ts), kind, text: words }]);
    const note = text(data.task_id);
    switch (event.type) {
      case "task:created":
      case "plan_task:created": {
        const id = text(data.id);
        if (id !== null && at.has(id)) change(id, parseChanges(data));
        else if (id !== null) {
          at = new Map(at).set(id, rows.length);
          rows.push(buildNewRow(id, data, rows, at));
        }
        // The event lacks the phase and the dependencies: show the row immediately, then refetch.
        refetch = true;
        break;
      }
      case "plan_task:removed":
        refetch = true;
        break;
      case "task:updated":
      case "plan_task:updated":
      case "plan_task:claimed":
      case "plan_task:released": {
        const id = text(data.id) ?? text(data.task_id);
        if (id === null) refetch = true;
        else change(id, parseChanges(data));
        refetch = true; // only the server knows the new states, also of tasks that waited for it
        break;
      }
      case "milestone:created":
        if (note === null) break;
        change(note, { milestone: text(data.message), ...(number(data.progress) === null ? {} : { progress: number(data.progress) }), isStale: false });
        mark(note, "milestone", text(data.message) ?? "");
        break;
      case "decision:created":
        if (note !== null) change(note, { decisions: (rows[at.get(note) ?? -1]?.decisions ?? 0) + 1 });
        break;
      case "issue:created":
        if (note === null) break;
        change(note, {
          issues: (rows[at.get(note) ?? -1]?.issues ?? 0) + 1,
          ...(data.requires_human_review ? { isBlocked: true } : {}),
        });
        mark(note, "blocker", text(data.description) ?? "");
        break;
      case "issue:resolved":
      case "session:updated":
      case "session:completed":
      case "session:aborted":
      case "plan:updated":
        refetch = true;
        break;
      default:
        break;
    }
  }
  const seq = mine[mine.length - 1]!.seq;
  return { table: { ...table, rows, at, seq, marks, total: Math.max(table.total, rows.length) }, refetch };
}

/** Builds the row of a new task. Until the refetch it is shown in its parent's phase, or in the newest one. */
function buildNewRow(id: string, data: Record<string, unknown>, rows: TaskRow[], at: Map<string, number>): TaskRow {
  const parent = text(data.parent_task_id);
  const phase = parent === null ? undefined : rows[at.get(parent) ?? -1]?.phase;
  const newest = rows.reduce<number | null>((most, row) => (row.phase !== null && (most === null || row.phase > most) ? row.phase : most), null);
  return {
    id, name: id, status: "pending", phase: phase ?? newest, parent, agent: null, started: null, ended: null, files: 0,
    decisions: 0, issues: 0, milestone: null, progress: null, isStale: false, isBlocked: false, state: null, because: null, ...parseChanges(data),
  };
}

/** Returns the columns that an event's data contains. */
function parseChanges(data: Record<string, unknown>): Partial<TaskRow> {
  const row: Partial<TaskRow> = {};
  const status = text(data.status);
  if (status !== null) Object.assign(row, { status, state: null, because: null });
  const name = text(data.name);
  if (name !== null) row.name = name;
  const agent = text(data.agent_name) ?? text(data.assigned_agent_name);
  if (agent !== null) row.agent = agent;
  const started = parseTime(data.started_at);
  if (started !== null) row.started = started;
  if ("completed_at" in data) row.ended = parseTime(data.completed_at);
  if (row.ended != null) row.isStale = false;
  const files = data.files_changed;
  if (files && typeof files === "object" && !Array.isArray(files)) {
    row.files = Object.values(files as Record<string, unknown>).reduce<number>((sum, each) => sum + (number(each) ?? 0), 0);
  }
  return row;
}

function indexById(rows: TaskRow[]): Map<string, number> {
  return new Map(rows.map((row, index) => [row.id, index]));
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Parses a time, given as ISO 8601, seconds or milliseconds, into milliseconds. */
export function parseTime(value: unknown): number | null {
  if (typeof value === "number" && value > 0) return value < 1e11 ? value * 1000 : value;
  if (typeof value !== "string" || value === "") return null;
  const parsed = Date.parse(value);
  return Number.isNaN(parsed) ? null : parsed;
}
