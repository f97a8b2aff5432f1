/** Agents at work: the runs of agents that deepwork started, and what each agent does now. */

import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { absolute, duration, now } from "../clock";
import { anyOf, LOOK_AGAIN, useResource } from "../data/resource";
import type { AgentRun, AgentRunsAnswer } from "../data/shapes";
import { parseTime } from "../data/tasks";
import { query, runAddress, withQuery } from "../router";
import { Actions } from "../ui/actions";
import { AttemptList } from "../ui/attempts";
import { Ago, Bar, dollars, Duration, Empty, Field, Fields, formatCount, Loaded, Section, tokens } from "../ui/parts";
import { Next, Standing } from "../ui/standing";

const affectsWork = anyOf("run", "attempt");

export default function Work() {
  const current = useResource<AgentRunsAnswer>("/runner/runs?state=current&limit=100", affectsWork, LOOK_AGAIN);
  return (
    <div class="page">
      <h1>Agents at work</h1>
      <Loaded of={current}>
        {(data) => {
          const agents = data.runs.reduce((sum, run) => sum + run.attempts.length, 0);
          return data.runs.length === 0 ? (
            <Empty title="No agents at work">
              <p>
                Let agents work on a plan with <code>deepwork run PLAN</code>.
              </p>
            </Empty>
          ) : (
            <>
              <p class="faint list-note">
                {formatCount(agents, "agent")} in {formatCount(data.total, "run")}
              </p>
              {data.runs.map((run) => (
                <CurrentRun key={run.id} run={run} onDone={current.reload} />
              ))}
            </>
          );
        }}
      </Loaded>
      <EndedRuns />
    </div>
  );
}

function CurrentRun({ run, onDone }: { run: AgentRun; onDone: () => void }) {
  return (
    <section class="card" data-agent-run={run.id} aria-label={nameRun(run)}>
      <div class="card-head">
        <Standing of={run} status={run.status} />
        <h2>
          <a href={`/work/${run.id}`}>{nameRun(run)}</a>
        </h2>
        <div class="card-actions">
          <Actions actions={run.actions} onDone={onDone} />
        </div>
      </div>
      <Facts run={run} />
      {run.attempts.length > 0 ? <AttemptList attempts={run.attempts} label={`Agents of ${nameRun(run)}`} /> : <p class="faint">No agent works at the moment.</p>}
    </section>
  );
}

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

function EndedRuns() {
  const wanted = new URLSearchParams({ state: "ended", limit: "20" });
  const cursor = query.value.get("cursor");
  if (cursor) wanted.set("cursor", cursor);
  const ended = useResource<AgentRunsAnswer>(`/runner/runs?${wanted}`, (event) => event.type === "run:ended" || event.type === "attempt:ended");
  if (!ended.data?.runs.length) return null;
  return (
    <Section title="Ended runs" count={ended.data.total}>
      <ul class="runlist" aria-label="Ended runs">
        {ended.data.runs.map((run) => (
          <li class="agent-row" data-item data-agent-run={run.id} key={run.id}>
            <div class="run-state">
              <Standing of={run} status={run.status} />
            </div>
            <div class="run-main">
              <a class="run-name" data-main href={`/work/${run.id}`}>
                {nameRun(run)}
              </a>
              <span class="kind">{run.chain.join(", ")}</span>
              {run.reason && <p class="attempt-reason">{run.reason}</p>}
            </div>
            <div class="run-facts numbers">
              <span>
                <Duration from={run.created_at} to={run.ended_at} />
              </span>
              <span>{tokens(run.tokens)} tokens</span>
              <span>{dollars(run.usd ?? 0)}</span>
            </div>
            <div class="run-times faint">
              <Ago at={run.ended_at} />
            </div>
          </li>
        ))}
      </ul>
      <div class="pager">
        {cursor && <a class="button" href={withQuery({ cursor: null })}>First page</a>}
        {ended.data.cursor && <a class="button" href={withQuery({ cursor: ended.data.cursor })} rel="next">Next page</a>}
      </div>
    </Section>
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
                <a href="/work">Agents at work</a> › <code>{data.id}</code>
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
