/** A list of runs with a summary of each. */

import type { RunLine } from "../data/shapes";
import { runAddress } from "../router";
import { dollars, Ago, Bar, formatCount, tokens, Duration } from "./parts";
import { Next, Standing } from "./standing";
import { describePhases, dotsOf, type PhasePlace } from "../view/phases";

export function RunList({ runs, label }: { runs: RunLine[]; label: string }) {
  return (
    <ul class="runlist" aria-label={label}>
      {runs.map((run) => (
        <RunRow key={run.id} run={run} />
      ))}
    </ul>
  );
}

const KINDS: Record<string, string> = { track: "tracked", plan: "plan", job: "job" };

function RunRow({ run }: { run: RunLine }) {
  const { total, done, failed, running } = run.tasks;
  return (
    <li class="run" data-item data-run={run.id}>
      <div class="run-state">
        <Standing of={run} status={run.status} />
      </div>
      <div class="run-main">
        <a class="run-name" data-main href={runAddress(run.id)}>
          {run.name}
        </a>
        <span class="kind">{KINDS[run.kind] ?? run.kind}</span>
        {run.objective && <p class="run-objective">{run.objective}</p>}
        {run.last_milestone && <p class="run-milestone">{run.last_milestone}</p>}
        {(run.state === "needs_you" || run.state === "unattended") && <Next of={run} />}
      </div>
      <div class="run-phase">{run.phase && run.phase.total > 0 && <PhaseDots phase={run.phase} />}</div>
      <div class="run-tasks">
        <Bar done={done} failed={failed} running={running} total={total} label={`${done} of ${formatCount(total, "task")} done, ${failed} failed, ${running} running`} />
        <span class="numbers">
          {done.toLocaleString()}/{total.toLocaleString()}
          {failed > 0 && <span class="tone-bad"> {failed} failed</span>}
        </span>
      </div>
      <div class="run-facts">
        {run.blockers ? <span class="tone-warn">{formatCount(run.blockers, "blocker")}</span> : null}
        {run.files_changed ? (
          <span>
            {formatCount(run.files_changed, "file")}
            {run.lines_added != null && ` +${run.lines_added}`}
            {run.lines_removed != null && ` −${run.lines_removed}`}
          </span>
        ) : null}
        {run.tokens ? <span>{tokens(run.tokens)} tokens</span> : null}
        {run.usd ? <span>{dollars(run.usd)}</span> : null}
        {run.agents?.length ? <span title={run.agents.join(", ")}>{run.agents.length === 1 ? run.agents[0] : formatCount(run.agents.length, "agent")}</span> : null}
      </div>
      <div class="run-times">
        <span>
          <Duration from={run.started_at} to={run.ended_at} />
        </span>
        <span class="faint">
          <Ago at={run.started_at} />
        </span>
      </div>
    </li>
  );
}

/** Phase k of n, as dots if there are few. */
export function PhaseDots({ phase }: { phase: PhasePlace }) {
  const words = describePhases(phase);
  if (!phase.statuses) return <span class="numbers">{words}</span>;
  return (
    <span class="phases" role="img" aria-label={words} title={words}>
      {dotsOf(phase).map((dot) => (
        <span class={`phase-dot ${dot}`} />
      ))}
      <span class="numbers">
        {Math.min(phase.current, phase.total)}/{phase.total}
      </span>
    </span>
  );
}
