/** Landings: those of a plan as a queue, and one landing with what is in its way. */

import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { useResource, type EventFilter } from "../data/resource";
import type { Landing, LandingsAnswer, RunRef } from "../data/shapes";
import { query, runAddress, taskAddress, withQuery } from "../router";
import { Actions } from "../ui/actions";
import { Checks, LandButton, LandingList, LandingState, Way } from "../ui/landing";
import { Ago, Empty, Field, Fields, formatCount, Loaded, Section } from "../ui/parts";
import { Next } from "../ui/standing";
import { CommitLink, whyAddress } from "../ui/why";
import { describeProblem, listConflictFiles, sortQueue } from "../view/landings";
import { reveal } from "../view/reveal";

const ofLandings =
  (plan: string): EventFilter =>
  (event) =>
    event.workflow_id === plan && /^(landing|approval|plan_task):/.test(event.type);

export function LandingTab({ plan, name, state }: { plan: string; name: string; state?: string | null }) {
  const address = `/landings?workflow_id=${encodeURIComponent(plan)}`;
  const open = useResource<LandingsAnswer>(`${address}&open=true&limit=500`, ofLandings(plan));
  const cursor = query.value.get("cursor");
  const ended = useResource<LandingsAnswer>(`${address}&ended=true&limit=50${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, ofLandings(plan));
  const reload = () => {
    open.reload();
    ended.reload();
  };
  return (
    <>
      <div class="tools">
        <LandButton plan={plan} name={name} isOffered={state !== "landed"} onDone={reload} />
        {open.data && ended.data && (
          <span class="faint">
            {formatCount(ended.data.total, "landing")} ended, {open.data.total} on the way
          </span>
        )}
      </div>
      <Loaded of={open}>
        {(data) =>
          data.landings.length > 0 ? (
            <Section title="On the way" count={data.total}>
              <LandingList landings={sortQueue(data.landings)} label="On the way" onDone={reload} />
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
