/** The tasks of a run as a table that can be sorted and filtered. */

import { useMemo } from "preact/hooks";
import { ago, duration, now } from "../clock";
import type { TaskRow, TaskTable } from "../data/tasks";
import { go, query, withQuery } from "../router";
import { Empty, formatCount } from "../ui/parts";
import { Rows } from "../ui/rows";
import { getLook, State } from "../ui/state";
import { getDisplayStatus } from "../view/tree";
import { Choice, useQueryText } from "./runs";

const COLUMNS: [string, string][] = [
  ["status", "State"],
  ["name", "Task"],
  ["phase", "Phase"],
  ["agent", "Agent"],
  ["started", "Started"],
  ["took", "Duration"],
  ["files", "Files"],
  ["notes", "Notes"],
];

export function TasksTab({ table }: { table: TaskTable }) {
  const sort = query.value.get("sort") ?? "";
  const isDown = query.value.get("order") === "desc";
  const status = query.value.get("status") ?? "";
  const [typed, setTyped] = useQueryText("q");
  const text = (query.value.get("q") ?? "").toLowerCase();
  const states = useMemo(() => [...new Set(table.rows.map(getDisplayStatus))].sort(), [table.rows]);
  const items = useMemo(() => {
    const parts = text.split(/\s+/).filter(Boolean);
    const found = table.rows.filter((task) => {
      if (status && getDisplayStatus(task) !== status) return false;
      const words = parts.length ? `${task.name} ${task.agent ?? ""} ${task.id} ${task.milestone ?? ""}`.toLowerCase() : "";
      return parts.every((part) => words.includes(part));
    });
    if (sort) found.sort((a, b) => compare(value(a, sort), value(b, sort)) * (isDown ? -1 : 1));
    return found.map((task) => ({ key: task.id, task }));
  }, [table.rows, text, status, sort, isDown]);
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Tasks">
        <input type="search" data-search placeholder="Filter tasks" aria-label="Filter tasks" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="status" label="State" none="All states" options={states.map((each) => [each, getLook(each).word])} />
        <span class="faint numbers">
          {items.length === table.rows.length ? formatCount(items.length, "task") : `${items.length.toLocaleString()} of ${formatCount(table.rows.length, "task")}`}
          {table.total > table.rows.length && ` (${table.total.toLocaleString()} in total)`}
        </span>
      </div>
      {items.length === 0 ? (
        <Empty title={table.rows.length ? "No matching tasks" : "No tasks yet"} />
      ) : (
        <Rows
          items={items}
          label="Tasks"
          rowHeight={34}
          columns={COLUMNS.length}
          className="tasks"
          selected={query.value.get("task")}
          onSelect={(item) => go(withQuery({ task: item.task.id }))}
          head={COLUMNS.map(([key, name], index) => (
            <div role="columnheader" class={`c${index}`} aria-sort={sort === key ? (isDown ? "descending" : "ascending") : undefined}>
              <a href={withQuery({ sort: sort === key && isDown ? null : key, order: sort === key && !isDown ? "desc" : null })} tabIndex={index === 0 ? 0 : undefined} data-keeps-scroll>
                {name}
                {sort === key ? (isDown ? " ↓" : " ↑") : ""}
              </a>
            </div>
          ))}
        >
          {({ task }) => <Cells task={task} />}
        </Rows>
      )}
    </>
  );
}

function Cells({ task }: { task: TaskRow }) {
  const notes = [task.decisions && formatCount(task.decisions, "decision"), task.issues && formatCount(task.issues, "issue")].filter(Boolean).join(", ");
  return (
    <>
      <div role="gridcell" class="c0">
        <State status={getDisplayStatus(task)} isSmall />
      </div>
      <div role="gridcell" class="c1" title={task.milestone ? `${task.name}\n${task.milestone}` : task.name}>
        <span class="task-name">{task.name}</span>
        {task.milestone && <span class="faint"> {task.milestone}</span>}
      </div>
      <div role="gridcell" class="c2">{task.phase ?? ""}</div>
      <div role="gridcell" class="c3" title={task.agent ?? undefined}>{task.agent ?? ""}</div>
      <div role="gridcell" class="c4" title={task.started === null ? undefined : new Date(task.started).toISOString()}>
        {task.started === null ? "" : ago(task.started, now.value)}
      </div>
      <div role="gridcell" class="c5">{task.started === null ? "" : duration((task.ended ?? now.value) - task.started)}</div>
      <div role="gridcell" class="c6">{task.files || ""}</div>
      <div role="gridcell" class="c7" title={notes}>{notes}</div>
    </>
  );
}

function value(task: TaskRow, by: string): string | number | null {
  switch (by) {
    case "status":
      return getDisplayStatus(task);
    case "phase":
      return task.phase;
    case "agent":
      return task.agent;
    case "started":
      return task.started;
    case "took":
      return task.started === null ? null : (task.ended ?? Date.now()) - task.started;
    case "files":
      return task.files;
    case "notes":
      return task.decisions + task.issues;
    default:
      return task.name;
  }
}

/** Compares two values; null sorts after all others. */
function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}
