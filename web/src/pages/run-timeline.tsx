/** The timeline: phases, tasks and subtasks as rows, with bars for when they ran. */

import { useMemo } from "preact/hooks";
import { day, duration, now, shortClock, clockTime } from "../clock";
import { ofRun, useResource } from "../data/resource";
import type { EventsAnswer, Issue, Phase, RunDetails } from "../data/shapes";
import { parseTime, type Mark, type TaskTable } from "../data/tasks";
import { go, query, replace, withQuery } from "../router";
import { Empty, formatCount } from "../ui/parts";
import { Rows } from "../ui/rows";
import { getLook, Shape, StateMark } from "../ui/state";
import { ticks, timeScale, type Scale, type Span } from "../view/timescale";
import { rowsOf, getDisplayStatus, type TreeRow } from "../view/tree";
import { Choice, useQueryText } from "./runs";

const ROW = 30;
/** A timeline of more tasks opens with its finished and its later phases folded. */
const FOLDED_OVER = 40;

/** Phases that are finished, and those that have not begun, but the first of these. */
function listFolded(phases: readonly Phase[]): string[] {
  const isFinished = ({ tasks }: Phase) => tasks.total > 0 && tasks.completed === tasks.total;
  const hasBegun = ({ tasks }: Phase) => tasks.completed + tasks.in_progress + tasks.failed > 0;
  const next = phases.find((phase) => !isFinished(phase));
  return phases.filter((phase) => isFinished(phase) || (!hasBegun(phase) && phase !== next)).map((phase) => `phase:${phase.number}`);
}

export function Timeline({ run, table }: { run: RunDetails; table: TaskTable }) {
  const asked = query.value;
  const groupBy = (asked.get("group") ?? "phase") as "phase" | "agent" | "none";
  const failuresOnly = asked.get("fail") === "1";
  const foldIdle = asked.get("idle") === "fold";
  const text = asked.get("q") ?? "";
  const isLong = table.rows.length > FOLDED_OVER;
  // It opens where work goes on: what is finished is folded, until somebody unfolds it.
  const folded = useMemo(() => new Set(asked.get("fold")?.split(",") ?? (isLong ? listFolded(run.phases ?? []) : [])), [asked.get("fold"), run.phases, isLong]);
  const isOver = Boolean(run.ended_at);

  const rows = useMemo(
    () => rowsOf(table.rows, run.phases ?? [], { groupBy, folded, failuresOnly, words: text, status: "" }),
    [table.rows, run.phases, groupBy, folded, failuresOnly, text],
  );
  const present = isOver ? (parseTime(run.ended_at) ?? now.value) : now.value;
  const scale = useMemo(() => {
    const spans: Span[] = [];
    for (const task of table.rows) if (task.started !== null) spans.push({ start: task.started, end: task.ended ?? Math.max(task.started, present) });
    return timeScale(spans, present, foldIdle);
  }, [table.rows, present, foldIdle]);
  const marks = useMarks(run.id, table);
  const [from, to] = zoomOf(asked.get("zoom"));

  const zoom = (factor: number, shift = 0) => {
    const middle = (from + to) / 2 + shift * (to - from);
    const half = Math.max(0.001, Math.min(0.5, ((to - from) / 2) * factor));
    const left = Math.max(0, Math.min(1 - 2 * half, middle - half));
    const next = half >= 0.5 ? null : `${left.toFixed(4)}-${(left + 2 * half).toFixed(4)}`;
    replace(withQuery({ zoom: next }));
  };
  const fold = (row: TreeRow, isOpen: boolean) => {
    const next = new Set(folded);
    if (isOpen) next.delete(row.key);
    else next.add(row.key);
    replace(withQuery({ fold: [...next].join(",") || "none" }));
  };

  if (table.rows.length === 0 && !(run.phases ?? []).length) {
    return (
      <Empty title="No task has started">
        <p>Tasks appear here as soon as they start.</p>
      </Empty>
    );
  }
  const room = innerWidth < 800 ? 2 : asked.has("task") ? 5 : 9;
  const allTicks = ticks(scale.moment(from), scale.moment(to), room).filter((at) => !scale.gaps.some((gap) => at > gap.start && at < gap.end));
  const at = (when: number) => (scale.place(when) - from) / (to - from);
  return (
    <>
      <Tools failuresOnly={failuresOnly} foldIdle={foldIdle} zoom={zoom} isZoomed={from > 0 || to < 1} count={rows.length} gaps={scale.gaps} />
      <Rows
        items={rows}
        label="Timeline"
        rowHeight={ROW}
        isTree
        columns={2}
        className="timeline"
        selected={query.value.get("task")}
        onSelect={(row) => (row.kind === "task" ? go(withQuery({ task: row.task.id })) : fold(row, !row.isOpen))}
        onFold={fold}
        head={
          <>
            <div role="columnheader" class="tl-name">
              {formatCount(table.rows.length, "task")}
            </div>
            <div
              role="columnheader"
              class="tl-track"
              aria-label="Time"
              onWheel={(event) => {
                if (!event.ctrlKey && !event.shiftKey) return;
                event.preventDefault();
                if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8);
                else zoom(1, event.deltaY > 0 ? 0.1 : -0.1);
              }}
            >
              {allTicks.map((when, index) => (
                <span class="tl-tick" style={{ left: `${(at(when) * 100).toFixed(3)}%` }}>
                  {label(when, index === 0 || day(when) !== day(allTicks[index - 1]!), scale.moment(to) - scale.moment(from))}
                </span>
              ))}
            </div>
          </>
        }
        above={
          <div class="tl-lines" aria-hidden="true">
            <div class="tl-lines-inner">
              {allTicks.map((when) => (
                <span class="tl-line" style={{ left: `${(at(when) * 100).toFixed(3)}%` }} />
              ))}
              {scale.gaps.map((gap) => (
                <span class="tl-gap" style={{ left: `${(at(gap.start) * 100).toFixed(3)}%`, width: `${((at(gap.end) - at(gap.start)) * 100).toFixed(3)}%` }} />
              ))}
              {!isOver && at(present) <= 1.001 && at(present) >= 0 && <span class="tl-now" style={{ left: `${(Math.min(1, at(present)) * 100).toFixed(3)}%` }} />}
            </div>
          </div>
        }
      >
        {(row) => <TimelineRow row={row} scale={scale} from={from} to={to} present={present} marks={row.kind === "task" ? marks.get(row.key) : undefined} onFold={fold} />}
      </Rows>
    </>
  );
}

function Tools(props: { failuresOnly: boolean; foldIdle: boolean; zoom: (factor: number, shift?: number) => void; isZoomed: boolean; count: number; gaps: Span[] }) {
  const [words, setWords] = useQueryText("q");
  const idle = props.gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  return (
    <div class="tools" role="toolbar" aria-label="Timeline">
      <input type="search" data-search placeholder="Filter tasks" aria-label="Filter tasks" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      <Choice name="group" label="Group by" none="By phase" options={[["agent", "By agent"], ["none", "No groups"]]} />
      <button type="button" class="button" aria-pressed={props.failuresOnly} onClick={() => go(withQuery({ fail: props.failuresOnly ? null : 1 }))}>
        Failures only
      </button>
      <button type="button" class="button" aria-pressed={props.foldIdle} onClick={() => go(withQuery({ idle: props.foldIdle ? null : "fold" }))}>
        {props.foldIdle && idle ? `Idle time folded (${duration(idle)})` : "Fold idle time"}
      </button>
      <span class="tools-group" role="group" aria-label="Zoom">
        <button type="button" class="button" aria-label="Earlier" disabled={!props.isZoomed} onClick={() => props.zoom(1, -0.4)}>
          ‹
        </button>
        <button type="button" class="button" aria-label="Zoom out" disabled={!props.isZoomed} onClick={() => props.zoom(2)}>
          −
        </button>
        <button type="button" class="button" disabled={!props.isZoomed} onClick={() => props.zoom(1e6)}>
          Fit
        </button>
        <button type="button" class="button" aria-label="Zoom in" onClick={() => props.zoom(0.5)}>
          +
        </button>
        <button type="button" class="button" aria-label="Later" disabled={!props.isZoomed} onClick={() => props.zoom(1, 0.4)}>
          ›
        </button>
      </span>
      <span class="faint numbers">{formatCount(props.count, "row")}</span>
    </div>
  );
}

function TimelineRow({ row, scale, from, to, present, marks, onFold }: { row: TreeRow; scale: Scale; from: number; to: number; present: number; marks: Mark[] | undefined; onFold: (row: TreeRow, isOpen: boolean) => void }) {
  const isGroup = row.kind === "group";
  const status = isGroup ? row.status : getDisplayStatus(row.task);
  const start = isGroup ? row.start : row.task.started;
  const end = (isGroup ? row.end : row.task.ended) ?? present;
  const at = (when: number) => (scale.place(when) - from) / (to - from);
  const look = getLook(status);
  const name = isGroup ? row.name : row.task.name;
  const length = start === null ? "" : duration(end - start);
  return (
    <>
      <div role="gridcell" class={isGroup ? "tl-name is-group" : "tl-name"} style={{ paddingLeft: `${(row.level - 1) * 16 + 6}px` }}>
        <button type="button" class={row.isOpen === null ? "twist is-none" : row.isOpen ? "twist is-open" : "twist"} tabIndex={-1} aria-hidden="true" onClick={() => row.isOpen !== null && onFold(row, !row.isOpen)}>
          <svg viewBox="0 0 10 10"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
        </button>
        <StateMark status={status} />
        <span class="tl-text" title={name}>
          {name}
        </span>
        {isGroup ? (
          <span class="faint numbers">
            {row.done}/{row.size}
          </span>
        ) : (
          row.task.agent && <span class="faint tl-agent">{row.task.agent}</span>
        )}
      </div>
      <div role="gridcell" class="tl-track">
        {start !== null && at(start) < 1 && at(end) > 0 && (
          <span
            class={`tl-bar fill-${look.tone}${isGroup ? " is-group" : ""}${(isGroup ? row.end : row.task.ended) === null ? " is-running" : ""}`}
            style={{ left: `${(Math.max(0, at(start)) * 100).toFixed(3)}%`, width: `max(3px, ${((Math.min(1, at(end)) - Math.max(0, at(start))) * 100).toFixed(3)}%)` }}
            title={`${clockTime(start)} – ${clockTime(end)}, ${length}`}
          />
        )}
        {start !== null && !isGroup && at(start) < 1 && at(end) > 0 && (at(end) <= 0.8 || at(start) > 0.35) && (
          <span class={at(end) > 0.8 ? "tl-length is-before" : "tl-length"} style={at(end) > 0.8 ? { right: `calc(${((1 - Math.max(0, at(start))) * 100).toFixed(3)}% + 6px)` } : { left: `calc(${(Math.max(0, at(end)) * 100).toFixed(3)}% + 6px)` }}>
            {length}
            {row.task.progress !== null && row.task.ended === null && ` · ${row.task.progress} %`}
          </span>
        )}
        {marks?.filter((mark) => at(mark.at) >= 0 && at(mark.at) <= 1).map((mark) => (
          <span class={`tl-mark is-${mark.kind}`} style={{ left: `${(at(mark.at) * 100).toFixed(3)}%` }} title={`${clockTime(mark.at)} ${mark.text}`}>
            {mark.kind === "blocker" && <Shape name="flag" />}
          </span>
        ))}
        {start === null && <span class="unseen">not started</span>}
      </div>
    </>
  );
}

/** Milestones and blockers by task: the stored ones, and those received since. */
function useMarks(run: string, table: TaskTable): Map<string, Mark[]> {
  const address = `/runs/${encodeURIComponent(run)}`;
  const events = useResource<EventsAnswer>(`${address}/events?type=milestone:created&limit=500`);
  const issues = useResource<{ issues: Issue[] }>(`${address}/issues?limit=500`, (event) => ofRun(run)(event) && event.type.startsWith("issue:"));
  return useMemo(() => {
    const marks = new Map<string, Mark[]>();
    const seen = new Set<string>();
    const add = (task: unknown, mark: Mark) => {
      if (typeof task !== "string" || Number.isNaN(mark.at)) return;
      const key = `${task}:${mark.kind}:${mark.at}`;
      if (seen.has(key)) return;
      seen.add(key);
      const list = marks.get(task);
      if (list) list.push(mark);
      else marks.set(task, [mark]);
    };
    for (const event of events.data?.events ?? []) add(event.data.task_id, { at: Date.parse(event.ts), kind: "milestone", text: String(event.data.message ?? "") });
    for (const issue of issues.data?.issues ?? []) if (issue.requires_human_review && !issue.resolved_at) add(issue.task_id, { at: Date.parse(issue.created_at), kind: "blocker", text: issue.description });
    for (const [task, list] of table.marks) for (const mark of list) if (mark.kind === "milestone") add(task, mark);
    return marks;
  }, [events.data, issues.data, table.marks]);
}

function zoomOf(text: string | null): [number, number] {
  const match = /^([\d.]+)-([\d.]+)$/.exec(text ?? "");
  if (!match) return [0, 1];
  const from = Math.max(0, Math.min(1, Number(match[1])));
  const to = Math.max(0, Math.min(1, Number(match[2])));
  return to - from > 0.0005 ? [from, to] : [0, 1];
}

function label(when: number, withDay: boolean, span: number): string {
  const time = span < 300_000 ? clockTime(when) : shortClock(when);
  return withDay && span > 43_200_000 ? `${day(when)} ${time}` : time;
}
