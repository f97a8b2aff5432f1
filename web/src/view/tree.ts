/** Turns tasks into rows of a tree (groups, tasks, subtasks), filtered and folded. */

import type { Phase } from "../data/shapes";
import type { TaskRow } from "../data/tasks";

export type TreeRow =
  | { kind: "group"; key: string; name: string; status: string; level: 1; isOpen: boolean; size: number; failed: number; done: number; start: number | null; end: number | null; place: number; places: number }
  | { kind: "task"; key: string; task: TaskRow; level: number; isOpen: boolean | null; place: number; places: number };

export interface TreeOptions {
  groupBy: "phase" | "agent" | "none";
  folded: ReadonlySet<string>;
  failuresOnly: boolean;
  words: string;
  status: string;
}

export const isFailure = (task: TaskRow): boolean =>
  ["failed", "needs_you", "unattended"].includes(task.state ?? task.status);

export const isDone = (status: string): boolean => ["completed", "success", "partial_success", "skipped"].includes(status);

export function rowsOf(tasks: readonly TaskRow[], phases: readonly Phase[], options: TreeOptions): TreeRow[] {
  const kept = keepMatching(tasks, options);
  const children = new Map<string, TaskRow[]>();
  const roots: TaskRow[] = [];
  const ids = new Set(kept.map((task) => task.id));
  for (const task of kept) {
    if (task.parent !== null && ids.has(task.parent) && task.parent !== task.id) push(children, task.parent, task);
    else roots.push(task);
  }
  const rows: TreeRow[] = [];
  const addAll = (siblings: TaskRow[], level: number) => {
    siblings.forEach((task, index) => {
      const below = level < 40 ? children.get(task.id) : undefined;
      const isOpen = below ? !options.folded.has(task.id) : null;
      rows.push({ kind: "task", key: task.id, task, level, isOpen, place: index + 1, places: siblings.length });
      if (below && isOpen) addAll(below, level + 1);
    });
  };
  if (options.groupBy === "none") {
    addAll(roots, 1);
    return rows;
  }
  // A filter hides groups without matching tasks.
  const groups = groupsOf(roots, phases, options.groupBy).filter((group) => group.tasks.length > 0 || !isFiltered(options));
  groups.forEach((group, index) => {
    const isOpen = !options.folded.has(group.key);
    const all = withChildren(group.tasks, children);
    rows.push({
      kind: "group", key: group.key, name: group.name, status: group.status ?? statusOf(all), level: 1, isOpen,
      size: all.length, failed: count(all, (task) => task.status === "failed"), done: count(all, (task) => isDone(task.status)),
      start: least(all.map((task) => task.started)), end: all.some((task) => task.ended === null && task.started !== null) ? null : most(all.map((task) => task.ended)),
      place: index + 1, places: groups.length,
    });
    if (isOpen) addAll(group.tasks, 2);
  });
  return rows;
}

interface Group {
  key: string;
  name: string;
  status: string | null;
  tasks: TaskRow[];
}

function groupsOf(roots: TaskRow[], phases: readonly Phase[], by: "phase" | "agent"): Group[] {
  const groups = new Map<string, Group>();
  if (by === "phase") {
    for (const phase of phases) groups.set(`phase:${phase.number}`, { key: `phase:${phase.number}`, name: phaseName(phase), status: phase.status, tasks: [] });
  }
  for (const task of roots) {
    const key = by === "phase" ? (task.phase === null ? "phase:" : `phase:${task.phase}`) : `agent:${task.agent ?? ""}`;
    let group = groups.get(key);
    if (!group) {
      const name = by === "phase" ? (task.phase === null ? "Tasks" : `Phase ${task.phase}`) : (task.agent ?? "Unassigned");
      group = { key, name, status: null, tasks: [] };
      groups.set(key, group);
    }
    group.tasks.push(task);
  }
  const list = [...groups.values()];
  return by === "agent" ? list.sort((a, b) => a.name.localeCompare(b.name)) : list;
}

const phaseName = (phase: Phase): string => (phase.name ? `${phase.number} · ${phase.name}` : `Phase ${phase.number}`);

const isFiltered = (options: TreeOptions): boolean => options.failuresOnly || options.words.trim() !== "" || options.status !== "";

/** Keeps matching tasks and their ancestors. */
function keepMatching(tasks: readonly TaskRow[], options: TreeOptions): readonly TaskRow[] {
  const words = options.words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!isFiltered(options)) return tasks;
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const kept = new Set<string>();
  for (const task of tasks) {
    if (options.failuresOnly && !isFailure(task)) continue;
    if (options.status && getDisplayStatus(task) !== options.status && task.status !== options.status) continue;
    if (words.length) {
      const text = `${task.name} ${task.agent ?? ""} ${task.id} ${task.milestone ?? ""}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    let at: TaskRow | undefined = task;
    while (at && !kept.has(at.id)) {
      kept.add(at.id);
      at = at.parent === null ? undefined : byId.get(at.parent);
    }
  }
  return tasks.filter((task) => kept.has(task.id));
}

/** Returns the state of a task; the status that an event brought, until the server has judged it. */
export function getDisplayStatus(task: Pick<TaskRow, "status" | "state">): string {
  return task.state ?? task.status;
}

function statusOf(tasks: TaskRow[]): string {
  if (tasks.some((task) => task.started !== null && task.ended === null)) return "in_progress";
  if (tasks.length && tasks.every((task) => isDone(task.status))) return "completed";
  if (tasks.some((task) => task.status === "failed")) return "failed";
  return "pending";
}

function withChildren(tasks: TaskRow[], children: Map<string, TaskRow[]>): TaskRow[] {
  const all: TaskRow[] = [];
  const walk = (list: TaskRow[], depth: number) => {
    for (const task of list) {
      all.push(task);
      const below = children.get(task.id);
      if (below && depth < 40) walk(below, depth + 1);
    }
  };
  walk(tasks, 0);
  return all;
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function count<T>(list: T[], is: (each: T) => boolean): number {
  return list.reduce((sum, each) => sum + (is(each) ? 1 : 0), 0);
}

function least(list: (number | null)[]): number | null {
  return list.reduce<number | null>((a, b) => (b === null ? a : a === null ? b : Math.min(a, b)), null);
}

function most(list: (number | null)[]): number | null {
  return list.reduce<number | null>((a, b) => (b === null ? a : a === null ? b : Math.max(a, b)), null);
}
