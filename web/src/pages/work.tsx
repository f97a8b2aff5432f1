/** A run of agents that deepwork started, with its attempts. */

import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { absolute, duration, now } from "../clock";
import { LOOK_AGAIN, useResource } from "../data/resource";
import type { AgentRun } from "../data/shapes";
import { parseTime } from "../data/tasks";
import { runAddress } from "../router";
import { Actions } from "../ui/actions";
import { AttemptList } from "../ui/attempts";
import { Ago, Bar, dollars, Duration, Field, Fields, formatCount, Loaded, Section, tokens } from "../ui/parts";
import { Next, Standing } from "../ui/standing";

const nameRun = (run: AgentRun): string => run.workflow?.name ?? run.job ?? run.id;

function Facts({ run }: { run: AgentRun }) {
  const usd = run.usd ?? 0;
  return (
    <>
      {run.goal && <p>{run.goal}</p>}
      {run.reason && <p class="attempt-reason">{run.reason}</p>}
      <Next of={run} />
      <Fields>
        <Field name="Spent">
          {run.max_usd != null && <Bar done={Math.min(usd, run.max_usd)} total={run.max_usd} label={`${dollars(usd)} of ${dollars(run.max_usd)} spent`} />}{" "}
          {dollars(usd)}
          {run.max_usd != null && ` of ${dollars(run.max_usd)}`}
        </Field>
        <Field name="Tokens">{tokens(run.tokens)}</Field>
        {run.until && (
          <Field name="Until">
            <Until at={run.until} isOver={Boolean(run.ended_at)} />
          </Field>
        )}
        <Field name="Agents">{run.chain.join(", then ")}</Field>
        <Field name="Time">
          <Duration from={run.created_at} to={run.ended_at} />
        </Field>
        <Field name="Started">
          <Ago at={run.created_at} /> by {run.created_by.replace(/^human:/, "")}
        </Field>
        {run.workflow && (
          <Field name={run.workflow.kind === "job" ? "Job" : "Plan"}>
            <a href={runAddress(run.workflow.id)}>{run.workflow.name}</a>
          </Field>
        )}
        {run.hosts && Object.keys(run.hosts).length > 0 && (
          <Field name="Machines">
            {Object.entries(run.hosts)
              .map(([host, agents]) => `${host}: ${formatCount(agents, "agent")}`)
              .join(", ")}
          </Field>
        )}
      </Fields>
    </>
  );
}

function Until({ at, isOver }: { at: string; isOver: boolean }) {
  const end = parseTime(at);
  if (end === null) return null;
  const left = end - now.value;
  return (
    <time dateTime={at} title={at}>
      {absolute(end)}
      {!isOver && left > 0 && ` (${duration(left)} left)`}
    </time>
  );
}

export function AgentRunPage({ rest: id }: PageProps) {
  const run = useResource<AgentRun>(`/runner/runs/${encodeURIComponent(id)}`, (event) => event.data.id === id || event.data.run_id === id, LOOK_AGAIN);
  const name = run.data && nameRun(run.data);
  useEffect(() => {
    if (name) subject.value = name;
  }, [name]);
  return (
    <div class="page">
      {!run.data && <h1 class="unseen">Agents at work</h1>}
      <Loaded of={run}>
        {(data) => (
          <>
            <header class="run-head">
              <p class="crumbs">
                <a href="/live">Live</a> › <code>{data.id}</code>
              </p>
              <div class="run-title">
                <h1>{nameRun(data)}</h1>
                <Standing of={data} status={data.status} />
                <div class="run-head-actions">
                  <Actions actions={data.actions} onDone={run.reload} />
                </div>
              </div>
              <Facts run={data} />
            </header>
            <Section title="Attempts" count={data.attempts_total}>
              {data.attempts.length === 0 ? <p class="faint">No agent was started.</p> : <AttemptList attempts={[...data.attempts].reverse()} label="Attempts" />}
            </Section>
          </>
        )}
      </Loaded>
    </div>
  );
}
