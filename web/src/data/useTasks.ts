/** A run's tasks for a view: loaded once, updated by events, reloaded only when an event contains too little. */

import { useEffect, useRef, useState } from "preact/hooks";
import { eventBuffer, listen } from "./live";
import { useResource } from "./resource";
import type { TasksAnswer } from "./shapes";
import { applyEvents, buildTable, type TaskTable } from "./tasks";

const REFETCH_PAUSE = 250;

export function useTasks(run: string): { table: TaskTable | null; error: Error | null; reload: () => void } {
  const resource = useResource<TasksAnswer>(`/runs/${encodeURIComponent(run)}/tasks`);
  const [table, setTable] = useState<TaskTable | null>(null);
  const held = useRef<{ answer: TasksAnswer | null; table: TaskTable | null }>({ answer: null, table: null });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  useEffect(() => {
    if (!resource.data || held.current.answer === resource.data) {
      if (!resource.data) setTable(null);
      return;
    }
    const fresh = buildTable(resource.data, resource.seq);
    // Keep marks received while the page is open, and apply events newer than the answer.
    if (held.current.table) fresh.marks = held.current.table.marks;
    const since = eventBuffer.since(resource.seq) ?? [];
    held.current = { answer: resource.data, table: applyEvents(fresh, since, run).table };
    setTable(held.current.table);
  }, [resource.data]);

  useEffect(() => {
    const off = listen((events) => {
      if (!held.current.table) return;
      const next = applyEvents(held.current.table, events, run);
      if (next.table !== held.current.table) {
        held.current.table = next.table;
        setTable(next.table);
      }
      if (next.refetch && timer.current === undefined) {
        const pause = Math.max(REFETCH_PAUSE, next.table.rows.length / 4);
        timer.current = setTimeout(() => {
          timer.current = undefined;
          resource.reload();
        }, pause);
      }
    });
    return () => {
      off();
      clearTimeout(timer.current);
      timer.current = undefined;
      held.current = { answer: null, table: null };
    };
  }, [run]);

  return { table, error: resource.error, reload: resource.reload };
}
