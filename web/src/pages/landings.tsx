/** Landings: those of a plan as a queue, and one landing with what is in its way. */

import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { useResource, type EventFilter } from "../data/resource";
import type { Landing, LandingsAnswer, RunRef } from "../data/shapes";
import type { QueueAnswer, QueuedLanding } from "../data/shapes-run";
import { query, runAddress, taskAddress, withQuery } from "../router";
import { Actions } from "../ui/actions";
import { Checks, LandButton, LandingList, LandingState, Way } from "../ui/landing";
import { Ago, Empty, Field, Fields, formatCount, humanize, Loaded, Section } from "../ui/parts";
import { Next } from "../ui/standing";
import { State } from "../ui/state";
import { CommitLink, whyAddress } from "../ui/why";
import { describeProblem, listConflictFiles } from "../view/landings";
import "./run.css";
import { reveal } from "../view/reveal";

const ofLandings =
  (plan: string): EventFilter =>
  (event) =>
    event.workflow_id === plan && /^(landing|approval|plan_task):/.test(event.type);

export function LandingTab({ plan, name, state }: { plan: string; name: string; state?: string | null }) {
  const open = useResource<QueueAnswer>(`/landings/queue?workflow_id=${encodeURIComponent(plan)}`, ofLandings(plan));
  const cursor = query.value.get("cursor");
  const ended = useResource<LandingsAnswer>(`/landings?workflow_id=${encodeURIComponent(plan)}&ended=true&limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, ofLandings(plan));
  const reload = () => {
    open.reload();
    ended.reload();
  };
  const waiting = open.data?.landings ?? [];
  return (
    <>
      <div class="tools">
        <LandButton plan={plan} name={name} isOffered={state !== "landed"} onDone={reload} />
        {open.data && ended.data && (
          <span class="faint">
            {open.data.landed != null && `${formatCount(open.data.landed, "task")} landed, `}
            {waiting.length} on the way
          </span>
        )}
      </div>
      <Loaded of={open}>
        {() =>
          waiting.length > 0 ? (
            <Section title="On the way" count={waiting.length}>
              <ol class="runlist" aria-label="On the way">
                {waiting.map((landing) => (
                  <Queued key={landing.id} landing={landing} onDone={reload} />
                ))}
              </ol>
            </Section>
          ) : ended.data?.total === 0 ? (
            <Empty title="Nothing was landed yet">
              <p>Completed tasks are merged, checked and then move the branch, the oldest first.</p>
            </Empty>
          ) : null
        }
      </Loaded>
      {ended.data && ended.data.landings.length > 0 && (
        <Section title="Ended" count={ended.data.total}>
          <LandingList landings={ended.data.landings} label="Ended" />
          <div class="pager">
            {cursor && <a class="button" href={withQuery({ cursor: null })}>First page</a>}
            {ended.data.cursor && <a class="button" href={withQuery({ cursor: ended.data.cursor })} rel="next">Next page</a>}
          </div>
        </Section>
      )}
    </>
  );
}

/** A landing on its way, with the culprit and the end of its log, or whom it conflicts with. */
function Queued({ landing, onDone }: { landing: QueuedLanding; onDone: () => void }) {
  const problem = describeProblem(landing);
  const { conflict, red } = landing;
  return (
    <li class="landing-row run-queued" data-item data-landing={landing.id}>
      <div class="run-state">
        <LandingState landing={landing} />
        {landing.position != null && <span class="faint">{landing.position === 1 ? "next" : `${landing.position}. in the queue`}</span>}
      </div>
      <div class="run-main">
        <a class="run-name" data-main href={`/landings/${landing.id}`}>{reveal(landing.title)}</a>
        <p class="faint"><Way landing={landing} /></p>
        {problem && <p class="tone-warn">{problem}{landing.returns > 0 && `; sent back ${landing.returns === 1 ? "once" : `${landing.returns} times`}`}</p>}
        {landing.culprit && (
          <p>
            <strong>Culprit:</strong>{" "}
            {landing.culprit === "work" ? <>this work: <code>{reveal(landing.branch ?? landing.target)}</code> passes without it.</> : <><code>{reveal(landing.branch ?? landing.target)}</code>: it does not pass without this work either.</>}
          </p>
        )}
        {red?.map((check) => (
          <div key={check.check}>
            <p class="check-marks"><State status="failed" word={`${check.check}: ${humanize(check.verdict)}`} isSmall /> <span class="faint">on the merged result</span></p>
            {check.log ? <pre class="run-log-end" tabIndex={0} aria-label={`The end of the log of ${check.check}`}>{reveal(check.log)}</pre> : <p class="faint">Its log was removed, or is on {landing.host}.</p>}
          </div>
        ))}
        {conflict && (
          <div class="run-conflict">
            <p>In {conflict.files.length ? conflict.files.map((file, index) => <>{index > 0 && ", "}<code>{reveal(file)}</code></>) : "files that are not known"}</p>
            {conflict.others?.length ? (
              <ul class="plain" aria-label="Conflicts with">
                {conflict.others.map((other) => (
                  <li>
                    with {other.landing_id ? <a href={`/landings/${other.landing_id}`}>{reveal(other.subject)}</a> : reveal(other.subject)} <CommitLink commit={other.commit} />
                    {other.task_id && <> · <a href={taskAddress(other.task_id)}>its task</a></>}
                  </li>
                ))}
              </ul>
            ) : (
              <p class="faint">{conflict.others ? "Nothing on the branch changed them since." : "With whom cannot be found out here."}</p>
            )}
          </div>
        )}
        {landing.same_files && landing.same_files.length > 0 && <p class="faint">Changes some of the same files as {landing.same_files.map(reveal).join(", ")}</p>}
        {landing.reason && !red?.length && !conflict && <p class="run-milestone">{reveal(landing.reason)}</p>}
        {landing.status === "returned" && <p class="faint">Its agent corrects it in the same session; it comes back here by itself.</p>}
        <Next of={landing} />
        <Checks checks={landing.checks} />
      </div>
      <div class="run-times">
        {landing.merge_commit && <CommitLink commit={landing.merge_commit} />}
        <span class="faint"><Ago at={landing.updated_at} /></span>
      </div>
      {landing.actions && landing.actions.length > 0 && <div class="landing-actions"><Actions actions={landing.actions} onDone={onDone} /></div>}
    </li>
  );
}

/** The newest landings of a task, on its page. */
export function TaskLandings({ task }: { task: string }) {
  const list = useResource<LandingsAnswer>(`/landings?task_id=${encodeURIComponent(task)}&limit=10`, (event) => event.type.startsWith("landing:") && event.data.task_id === task);
  if (!list.data?.total) return null;
  return (
    <Section title="Landings" count={list.data.total}>
      <LandingList landings={list.data.landings} label="Landings of this task" onDone={list.reload} />
    </Section>
  );
}

export default function LandingPage({ rest: id }: PageProps) {
  const landing = useResource<Landing & { workflow?: RunRef | null }>(`/landings/${encodeURIComponent(id)}`, (event) => /^(landing|approval):/.test(event.type));
  const title = landing.data?.title;
  useEffect(() => {
    if (title) subject.value = title;
  }, [title]);
  return (
    <div class="page">
      {!landing.data && <h1 class="unseen">Landing</h1>}
      <Loaded of={landing}>
        {(data) => (
          <>
            <header class="run-head">
              <p class="crumbs">
                {data.workflow && <><a href={runAddress(data.workflow.id, { tab: "landing" })}>{reveal(data.workflow.name)}</a> › </>}Landing <code>{data.id}</code>
              </p>
              <div class="run-title">
                <h1>{reveal(data.title)}</h1>
                <LandingState landing={data} />
                <div class="run-head-actions">{data.approval_id && <a class="button" href={`/approvals/${data.approval_id}`}>Look and decide</a>} <Actions actions={data.actions} onDone={landing.reload} /></div>
              </div>
              <Next of={data} />
              <p><Way landing={data} /></p>
              <Facts landing={data} />
            </header>
            <Obstacle landing={data} />
            {data.checks && data.checks.length > 0 && <Section title="Checks of the merged result"><Checks checks={data.checks} /></Section>}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Facts({ landing }: { landing: Landing }) {
  return (
    <Fields>
      {landing.position != null && <Field name="Queue">{landing.position === 1 ? "next" : `place ${landing.position}`}</Field>}
      {landing.task_id && <Field name="Task"><a href={taskAddress(landing.task_id)}>{landing.task_id}</a></Field>}
      {landing.source_commit && <Field name="Work"><CommitLink commit={landing.source_commit} /></Field>}
      {landing.base_commit && <Field name="Branch before"><CommitLink commit={landing.base_commit} /></Field>}
      {landing.merge_commit && <Field name="Merge commit"><CommitLink commit={landing.merge_commit} /></Field>}
      {landing.attempt_id && <Field name="Attempt"><code>{landing.attempt_id}</code></Field>}
      {landing.agent_id && <Field name="Agent"><a href={`/agents?agent=${encodeURIComponent(landing.agent_id)}`}>{landing.agent_id}</a></Field>}
      {landing.returns > 0 && <Field name="Sent back">{landing.returns === 1 ? "once" : `${landing.returns} times`}</Field>}
      <Field name="Asked by">{landing.created_by.replace(/^human:/, "")}, <Ago at={landing.created_at} /></Field>
      {landing.ended_at && <Field name="Ended"><Ago at={landing.ended_at} /></Field>}
      <Field name="Machine">{landing.host}</Field>
    </Fields>
  );
}

/** What is in the way, and who changed the files that conflict. */
function Obstacle({ landing }: { landing: Landing }) {
  const problem = describeProblem(landing);
  const files = landing.problem === "conflict" ? listConflictFiles(landing.reason) : [];
  const at = landing.branch ?? landing.target;
  if (!problem && !landing.reason) return null;
  return (
    <Section title={problem ? `In the way: ${problem}` : "Result"}>
      {landing.reason && <pre class="shown" tabIndex={0}>{reveal(landing.reason)}</pre>}
      {files.length > 0 && (
        <>
          <p class="label">Who changed these files on <code>{reveal(at)}</code></p>
          <ul class="plain">{files.map((file) => <li><a href={whyAddress({ path: file, commit: at })}><code>{reveal(file)}</code></a></li>)}</ul>
        </>
      )}
    </Section>
  );
}
