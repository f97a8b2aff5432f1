/** A run now: what failed, what needs you, what runs and what is ready; the rest as counts. */

import { useState } from "preact/hooks";
import { useFocus } from "../acts";
import { ago, duration, now } from "../clock";
import type { Lane, NowTask, WorkNow } from "../data/shapes-run";
import type { RunDetails } from "../data/shapes";
import { query, withQuery } from "../router";
import { ActBar } from "../ui/actbar";
import { dollars, Empty, formatCount, tokens } from "../ui/parts";
import { StateMark } from "../ui/state";
import { describeForecast } from "../view/forecast";
import { reveal } from "../view/reveal";
import { planSubject, taskSubject } from "./run-acts";

const NAMES: Record<Lane["name"], string> = { failed: "Failed", needs_you: "Needs you", running: "Running", ready: "Ready", waiting: "waiting", done: "done" };

export function NowTab({ run, work }: { run: RunDetails; work: WorkNow }) {
  const [focused, setFocused] = useState<string | null>(null);
  const shown = work.lanes.filter((lane) => lane.tasks && lane.total > 0);
  const folded = work.lanes.filter((lane) => !lane.tasks && lane.total > 0);
  const tasks = shown.flatMap((lane) => lane.tasks ?? []);
  const chosen = query.value.get("task") ?? focused;
  const task = run.kind === "plan" ? tasks.find((each) => each.id === chosen) : undefined;
  const subject = task ? taskSubject(task) : null;
  useFocus({ focused: subject ?? (run.kind === "plan" ? planSubject(run, work.run ?? null) : null) });
  if (shown.length === 0 && folded.length === 0) {
    return (
      <Empty title="No tasks yet">
        <p>Tasks appear here as soon as the plan has them.</p>
      </Empty>
    );
  }
  return (
    <div class="run-now" onFocusIn={(event) => setFocused((event.target as HTMLElement).closest<HTMLElement>("[data-id]")?.dataset.id ?? focused)}>
      {shown.length === 0 && <p class="run-quiet">Nothing waits, runs or failed.</p>}
      {shown.map((lane) => (
        <section class={`run-lane is-${lane.name}`} key={lane.name} aria-label={NAMES[lane.name]}>
          <h3>
            {NAMES[lane.name]} <span class="count">{lane.total.toLocaleString()}</span>
          </h3>
          <ol class="run-rows">
            {lane.tasks!.map((each) => (
              <NowRow key={each.id} task={each} isChosen={each.id === chosen} />
            ))}
          </ol>
          {lane.total > lane.tasks!.length && (
            <p class="faint">
              The first {lane.tasks!.length}. <a href={withQuery({ tab: "tasks", status: lane.name })}>Show all {lane.total.toLocaleString()}</a>
            </p>
          )}
        </section>
      ))}
      {subject && !query.value.get("task") && <ActBar subject={subject} />}
      {folded.length > 0 && (
        <p class="run-folded">
          {folded.map((lane) => (
            <a href={withQuery({ tab: "tasks", status: lane.name === "done" ? null : lane.name })}>
              {lane.total.toLocaleString()} {NAMES[lane.name]}
            </a>
          ))}
        </p>
      )}
      {work.forecast && (
        <p class="run-forecast">
          {describeForecast(work.forecast)}
          {work.forecast.tasks_until_limit != null && `. The limit is enough for about ${formatCount(work.forecast.tasks_until_limit, "task")}`}.{" "}
          <span class="faint">{[work.forecast.basis, work.forecast.unknown].filter(Boolean).join(" ")}</span>
        </p>
      )}
    </div>
  );
}

function NowRow({ task, isChosen }: { task: NowTask; isChosen: boolean }) {
  const age = task.since ? (task.state === "running" ? duration(now.value - task.since) : ago(task.since, now.value)) : "";
  const what = task.note ?? task.because?.replaceAll("_", " ") ?? "";
  return (
    <li class={isChosen ? "run-row is-chosen" : "run-row"} data-item data-id={task.id}>
      <StateMark status={task.state ?? "pending"} />
      <a class="run-row-name" data-main href={withQuery({ task: task.id })} aria-current={isChosen || undefined}>
        {reveal(task.name)}
      </a>
      <span class="run-row-note" title={reveal(what)}>
        {reveal(what)}
      </span>
      <span class="run-row-who" title={task.agent ?? undefined}>
        {task.agent ?? ""}
      </span>
      <span class="run-row-facts numbers">
        {[task.blocks ? `blocks ${task.blocks}` : "", task.attempts && task.attempts > 1 ? `attempt ${task.attempts}` : "", task.usd ? dollars(task.usd) : task.tokens ? `${tokens(task.tokens)} tokens` : "", age].filter(Boolean).join(" · ")}
      </span>
    </li>
  );
}
