/** One run: its objective, its progress, and tabs with different views of it. */

import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { read } from "../data/api";
import { LOOK_AGAIN, ofRun, useResource, type EventFilter, type Resource } from "../data/resource";
import type { RunDetails, TasksAnswer } from "../data/shapes";
import type { WorkNow } from "../data/shapes-run";
import { useTasks } from "../data/useTasks";
import { go, query, replace, runAddress, withQuery } from "../router";
import { ActBar } from "../ui/actbar";
import { Actions } from "../ui/actions";
import { announce } from "../ui/announce";
import { Evidence } from "../ui/evidence";
import { dollars, Ago, Bar, Copy, Field, Fields, Loaded, formatCount, Prose, Skeleton, tokens, Duration, ErrorNotice, humanize, NoPage } from "../ui/parts";
import { PhaseDots } from "../ui/runlist";
import { Next, Standing } from "../ui/standing";
import { State } from "../ui/state";
import { Tabs, type Tab } from "../ui/tabs";
import { DecisionsTab, IssuesTab } from "./run-notes";
import { FilesTab } from "./run-files";
import { LandingTab } from "./landings";
import { GraphTab } from "./run-graph";
import { planSubject } from "./run-acts";
import { Editor } from "./run-edit";
import { LogTab } from "./run-log";
import { NowTab } from "./run-now";
import { StepsTab } from "./run-steps";
import { TasksTab } from "./run-tasks";
import { Timeline } from "./run-timeline";
import { parseRunPath } from "../view/addresses";
import { TaskPeek } from "./task";
import "./run.css";

export default function RunPage({ rest }: PageProps) {
  const place = parseRunPath(rest);
  useEffect(() => {
    if (place?.tab) replace(runAddress(place.id, { ...Object.fromEntries(query.value), tab: place.tab }));
  }, [rest]);
  return place ? <Run key={place.id} id={place.id} /> : <NoPage />;
}

function Run({ id }: { id: string }) {
  const affectsRun: EventFilter = ofRun(id);
  const address = `/runs/${encodeURIComponent(id)}`;
  const run = useResource<RunDetails>(address, affectsRun, LOOK_AGAIN);
  const work = useResource<WorkNow>(`${address}/now`, (event) => event.workflow_id === id, LOOK_AGAIN);
  const status = run.data?.state ?? run.data?.status;
  useEffect(() => {
    if (run.data) subject.value = run.data.name;
  }, [run.data?.name]);
  useEffect(() => {
    if (status) announce(`${run.data!.name} is ${humanize(status)}.`);
  }, [status]);
  const reload = () => {
    run.reload();
    work.reload();
  };
  const names = async () => {
    const { data } = await read<TasksAnswer>(`${address}/tasks?limit=1000`);
    const [name, state] = [data.columns.indexOf("name"), data.columns.indexOf("state")];
    return data.rows.filter((row) => !["done", "landed"].includes(String(row[state]))).map((row) => String(row[name]));
  };
  return (
    <div class="page run-page">
      {!run.data && <h1 class="unseen">Run</h1>}
      <Loaded of={run} rows={6}>
        {(data) => (
          <>
            <Header run={data} work={work.data} onDone={reload} />
            <Body run={data} work={work} />
          </>
        )}
      </Loaded>
      <Editor names={names} onDone={reload} />
    </div>
  );
}

/** Two lines: what it is and what a person can do; how far it is, what it costs, who works, what needs them. */
function Header({ run, work, onDone }: { run: RunDetails; work: WorkNow | null; onDone: () => void }) {
  const { total, done, failed, running } = run.tasks;
  const head = work?.run ?? null;
  const needs = work?.lanes.find((lane) => lane.name === "needs_you")?.total ?? 0;
  const isPlan = run.kind === "plan";
  return (
    <header class="run-head">
      <div class="run-title">
        <span class="crumbs">
          <a href="/runs">Runs</a> › <span class="kind">{run.kind === "track" ? "tracked" : run.kind}</span> <code>{run.id}</code>
        </span>
        <h1>{run.name}</h1>
        <Standing of={run} status={run.status} />
        <div class="run-head-actions">
          {isPlan && <ActBar subject={planSubject(run, head)} />}
          {!head && <Actions actions={run.actions} onDone={onDone} />}
          <Copy label="Copy link" text={() => location.href} />
        </div>
      </div>
      <p class="run-line">
        <Bar done={done} failed={failed} running={running} total={total} label={`${done} of ${formatCount(total, "task")} done, ${failed} failed, ${running} running`} />
        <span class="numbers">
          {done.toLocaleString()} of {total.toLocaleString()} done
        </span>
        {failed > 0 && <span class="tone-bad numbers">{failed} failed</span>}
        {head ? (
          <>
            <a class="numbers" href={`/spend?run=${encodeURIComponent(run.id)}`}>
              {dollars(head.usd ?? 0)}
              {head.max_usd != null && ` of ${dollars(head.max_usd)}`}
            </a>
            <a class="numbers" href={`/work/${head.id}`}>
              {head.working} of {formatCount(head.agents, "agent")} at work
            </a>
          </>
        ) : run.usd ? (
          <span class="numbers">{dollars(run.usd)}</span>
        ) : null}
        {needs > 0 && (
          <a class="tone-warn numbers" href={withQuery({ tab: null, task: null })}>
            {needs} {needs === 1 ? "needs" : "need"} you
          </a>
        )}
        {run.blockers ? (
          <a href={withQuery({ tab: "issues" })} class="tone-warn numbers">
            {formatCount(run.blockers, "blocker")} open
          </a>
        ) : null}
        {head && head.state && head.state !== run.state && <Standing of={head} status={head.status} isSmall />}
        <span class="faint numbers">
          <Duration from={run.started_at} to={run.ended_at} />
        </span>
      </p>
      <Next of={head?.next ? head : run} />
    </header>
  );
}

/** What a person looks up now and then: the request, the facts, the proofs, what came of it. */
function About({ run, hasRun, onDone }: { run: RunDetails; hasRun: boolean; onDone: () => void }) {
  const approvals = run.evidence?.approvals?.length ?? 0;
  return (
    <details class="more run-about" open={Boolean(run.ended_at) || approvals > 0 || !run.plan}>
      <summary>About</summary>
      {run.objective && <div class="objective"><Prose text={run.objective} longest={600} /></div>}
      <Fields>
        {run.phase && run.phase.total > 0 && (
          <Field name="Phase">
            <PhaseDots phase={run.phase} />
          </Field>
        )}
        <Field name="Started">
          <Ago at={run.started_at} />
        </Field>
        {run.agents && run.agents.length > 0 && <Field name="Agents">{run.agents.join(", ")}</Field>}
        {run.files_changed ? (
          <Field name="Files">
            {run.files_changed.toLocaleString()}
            {run.lines_added != null && <span class="tone-good"> +{run.lines_added.toLocaleString()}</span>}
            {run.lines_removed != null && <span class="tone-bad"> −{run.lines_removed.toLocaleString()}</span>}
          </Field>
        ) : null}
        {run.tokens ? <Field name="Tokens">{tokens(run.tokens)}</Field> : null}
        {run.usd ? <Field name="Cost">{dollars(run.usd)}</Field> : null}
        {run.profile && <Field name="Profile">{run.profile}</Field>}
        {run.created_by && <Field name="Created by">{run.created_by}</Field>}
      </Fields>
      {hasRun && <Actions actions={run.actions} onDone={onDone} />}
      <Evidence evidence={run.evidence} />
      <Outcome run={run} />
      <More run={run} />
    </details>
  );
}

function Outcome({ run }: { run: RunDetails }) {
  if (!run.summary && !run.achievements?.length && !run.limitations?.length) return null;
  return (
    <div class="outcome">
      {run.summary && (
        <div>
          <h2>{run.outcome ? `Ended: ${humanize(run.outcome)}` : "Summary"}</h2>
          <Prose text={run.summary} longest={1200} />
        </div>
      )}
      {run.achievements && run.achievements.length > 0 && (
        <div>
          <h2>Achieved</h2>
          <ul class="plus">{run.achievements.map((each) => <li><Prose text={each} /></li>)}</ul>
        </div>
      )}
      {run.limitations && run.limitations.length > 0 && (
        <div>
          <h2>Limitations</h2>
          <ul class="minus">{run.limitations.map((each) => <li><Prose text={each} /></li>)}</ul>
        </div>
      )}
    </div>
  );
}

function More({ run }: { run: RunDetails }) {
  const plan = run.plan;
  const texts: [string, string | null | undefined][] = [
    ["Scope", run.scope],
    ["Constraints", run.constraints],
    ["Approach", plan?.approach],
    ["Risks", formatList(plan?.risks)],
    ["Assumptions", formatList(plan?.assumptions)],
    ["Repository", run.repository_path],
    ["Max. parallel", plan?.max_parallel_tasks ? formatCount(plan.max_parallel_tasks, "task") : null],
  ];
  const shown = texts.filter(([, text]) => text);
  const workspaces = run.workspaces ?? [];
  const history = plan?.history ?? [];
  if (shown.length === 0 && workspaces.length === 0 && history.length === 0) return null;
  return (
    <details class="more">
      <summary>{[...shown.map(([name]) => name), ...(workspaces.length ? ["Workspaces"] : []), ...(history.length ? ["History"] : [])].join(" · ")}</summary>
      <dl class="texts">
        {shown.map(([name, text]) => (
          <div>
            <dt>{name}</dt>
            <dd>
              <Prose text={text!} />
            </dd>
          </div>
        ))}
        {workspaces.length > 0 && (
          <div>
            <dt>Workspaces</dt>
            <dd>
              <ul class="plain">
                {workspaces.map((each) => (
                  <li>
                    {each.status && <State status={each.status} isSmall />} <code>{each.branch ?? each.id}</code> <span class="faint">{each.path}</span> <Actions actions={each.actions} />
                  </li>
                ))}
              </ul>
            </dd>
          </div>
        )}
        {history.length > 0 && (
          <div>
            <dt>History</dt>
            <dd>
              <ol class="milestones">
                {history.map((each) => (
                  <li>
                    <span class="faint">
                      <Ago at={each.at} />
                    </span>
                    <span>
                      <span class={each.what.includes("plan") ? "kind is-shared" : "kind"}>{humanize(each.what)}</span> {[each.before, each.after].filter(Boolean).map((word) => humanize(word!)).join(" → ")}
                      {each.reason && <> · {each.reason}</>} {each.by_whom && <span class="faint">{each.by_whom}</span>}
                    </span>
                  </li>
                ))}
              </ol>
            </dd>
          </div>
        )}
      </dl>
    </details>
  );
}

function formatList(list: unknown[] | null | undefined): string | null {
  if (!list?.length) return null;
  return list.map((each) => `- ${typeof each === "string" ? each : JSON.stringify(each)}`).join("\n");
}

function Body({ run, work }: { run: RunDetails; work: Resource<WorkNow> }) {
  const asked = query.value.get("tab");
  const isPlan = run.kind === "plan";
  const tabs: Tab[] = [
    // The steps of a job are few, and say what it waits for.
    ...(run.session ? [{ key: "steps", name: "Steps", count: run.session.steps.length }] : [{ key: "now", name: "Now" }]),
    { key: "tasks", name: "Tasks", count: run.tasks.total },
    { key: "graph", name: "Graph" },
    { key: "timeline", name: "Timeline" },
    { key: "files", name: "Changes", count: run.files_changed },
    ...(isPlan ? [{ key: "landing", name: "Landing" }] : []),
    // Plans seldom have notes of this kind: then they are in the log.
    ...(!isPlan || asked === "decisions" ? [{ key: "decisions", name: "Decisions" }] : []),
    ...(!isPlan || run.issues || asked === "issues" ? [{ key: "issues", name: "Issues", count: run.issues }] : []),
    { key: "log", name: "Log" },
  ];
  const current = tabs.some((tab) => tab.key === asked) ? asked! : tabs[0]!.key;
  const task = query.value.get("task");
  return (
    <>
      <Tabs tabs={tabs} current={current} label="Views of this run" />
      <div class={task ? "split has-peek" : "split"}>
        <div class="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${current}`}>
          <h2 class="unseen">{tabs.find((tab) => tab.key === current)?.name}</h2>
          {current === "now" && <Loaded of={work} rows={8}>{(data) => <NowTab run={run} work={data} />}</Loaded>}
          {(current === "timeline" || current === "tasks") && <WithTasks run={run} tab={current} />}
          {current === "graph" && <GraphTab run={run} />}
          {current === "steps" && <StepsTab run={run} />}
          {current === tabs[0]!.key && <About run={run} hasRun={Boolean(work.data?.run)} onDone={work.reload} />}
          {current === "files" && <FilesTab run={run.id} />}
          {current === "decisions" && <DecisionsTab run={run.id} />}
          {current === "issues" && <IssuesTab run={run.id} />}
          {current === "landing" && <LandingTab plan={run.id} name={run.name} state={run.state} />}
          {current === "log" && <LogTab run={run.id} />}
        </div>
        {task && <TaskPeek id={task} onClose={() => go(withQuery({ task: null }))} />}
      </div>
    </>
  );
}

function WithTasks({ run, tab }: { run: RunDetails; tab: string }) {
  const { table, error, reload } = useTasks(run.id);
  if (!table) return error ? <ErrorNotice error={error} onRetry={reload} /> : <Skeleton rows={10} />;
  return tab === "timeline" ? <Timeline run={run} table={table} /> : <TasksTab table={table} />;
}
