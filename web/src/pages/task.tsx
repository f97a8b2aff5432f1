/** One task, as a page or as a panel beside a list. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { subject, type PageProps } from "../routes";
import { useResource } from "../data/resource";
import type { Attempt, Checkpoint, GateDecision, RelatedTask, ReviewRound, Milestone, StateFields, TaskAnswer, Word } from "../data/shapes";
import { parseTime } from "../data/tasks";
import { runAddress, taskAddress } from "../router";
import { ActBar } from "../ui/actbar";
import { Actions } from "../ui/actions";
import { AttemptList } from "../ui/attempts";
import { TaskDiffs } from "../ui/diff";
import { Evidence } from "../ui/evidence";
import { LandButton } from "../ui/landing";
import { Ago, Copy, Field, Fields, Loaded, formatCount, Prose, Section, tokens, Duration, humanize } from "../ui/parts";
import { RewindButton, Rewinds, StaleInput } from "../ui/rewind";
import { Next, Standing } from "../ui/standing";
import { State, StateMark } from "../ui/state";
import { CommitLink } from "../ui/why";
import { TaskLandings } from "./landings";
import { taskSubject } from "./run-acts";
import { Editor } from "./run-edit";
import { DecisionCard, IssueCard } from "./run-notes";
import { Attempts, GateDecisions, Override, Rounds, Waiting } from "./run-steps";

function useTask(id: string) {
  const run = id.includes("/") ? id.split("/")[0] : null;
  return useResource<TaskAnswer>(`/tasks/${encodeURIComponent(id)}`, (event) => {
    const data = event.data;
    return data.id === id || data.task_id === id || data.parent_task_id === id || (run !== null && event.workflow_id === run);
  });
}

export default function TaskPage({ rest: id }: PageProps) {
  const task = useTask(id);
  useEffect(() => {
    if (task.data) subject.value = task.data.task.name;
  }, [task.data?.task.name]);
  return (
    <div class="page">
      {!task.data && <h1 class="unseen">Task</h1>}
      <Loaded of={task} rows={8}>
        {(data) => (
          <>
            <p class="crumbs">
              <a href="/runs">Runs</a> › <a href={runAddress(data.run.id)}>{data.run.name}</a>
              {data.parents?.map((parent) => (
                <>
                  {" "}
                  › <a href={taskAddress(parent.id)}>{parent.name}</a>
                </>
              ))}{" "}
              › <code>{data.task.id}</code>
            </p>
            <TaskBody answer={data} onDone={task.reload} isPage />
            <Editor names={async () => []} onDone={task.reload} />
          </>
        )}
      </Loaded>
    </div>
  );
}

export function TaskPeek({ id, onClose }: { id: string; onClose: () => void }) {
  const task = useTask(id);
  return (
    <aside class="peek" aria-label="Task">
      <div class="peek-bar">
        <a class="button tiny" href={taskAddress(id)}>
          Open as page
        </a>
        <button type="button" class="button tiny" onClick={onClose}>
          Close
        </button>
      </div>
      <Loaded of={task} rows={6}>
        {(data) => (
          <>
            {data.parents && data.parents.length > 0 && (
              <p class="crumbs">
                {data.parents.map((parent) => (
                  <>
                    <a href={taskAddress(parent.id)}>{parent.name}</a> ›{" "}
                  </>
                ))}
              </p>
            )}
            <TaskBody answer={data} onDone={task.reload} />
          </>
        )}
      </Loaded>
    </aside>
  );
}

const str = (value: unknown): string | null => (typeof value === "string" && value ? value : null);
const list = (value: unknown): string[] => (Array.isArray(value) ? value.map((each) => (typeof each === "string" ? each : JSON.stringify(each))) : []);

function TaskBody({ answer, onDone, isPage }: { answer: TaskAnswer; onDone: () => void; isPage?: boolean }) {
  const { task } = answer;
  const outcome = (task.outcome && typeof task.outcome === "object" ? task.outcome : {}) as Record<string, unknown>;
  const metadata = (task.metadata && typeof task.metadata === "object" ? task.metadata : {}) as Record<string, unknown>;
  const get = (name: string): unknown => outcome[name] ?? metadata[name] ?? task[name];
  const ended = task.completed_at ?? task.finished_at;
  const summary = str(outcome.summary) ?? str(task.summary) ?? str(task.outcome);
  const goal = str(task.goal) ?? str(task.description) ?? str(task.instructions);
  const Title = isPage ? "h1" : "h2";
  const isPlanned = answer.run.kind === "plan";
  const standing: StateFields = { state: str(task.state), because: str(task.because), next: str(task.next) };
  const hasBegun = task.status !== "pending" || Boolean(task.started_at);
  return (
    <>
      <div class="run-title">
        <Title>{task.name}</Title>
        <Standing of={standing} status={task.status} />
      </div>
      <Next of={standing} />
      <div class="task-actions">
        <Actions actions={answer.actions} onDone={onDone} />
        {isPlanned && <ActBar subject={taskSubject({ id: task.id, name: task.name, state: str(task.state), agent: str(task.agent_name), blocks: answer.dependents?.length ?? null })} />}
        {isPlanned && !task.finished_at && <Actions actions={[offerTell(task.id, task.name)]} onDone={onDone} />}
        {isPlanned && <LandButton task={task.id} name={task.name} isOffered={standing.next?.startsWith("deepwork land ") ?? false} onDone={onDone} />}
        {isPlanned && <RewindButton task={task.id} name={task.name} isOffered={hasBegun} />}
        <Copy small label="Copy link" text={() => `${location.origin}${taskAddress(task.id)}`} />
        <Copy small label="Copy id" text={task.id} />
        <Copy small label="Copy prompt" text={() => buildPrompt(answer, goal)} />
      </div>
      {goal && <Prose text={goal} longest={1500} />}
      <Fields>
        {str(task.agent_name) && <Field name="Agent">{str(task.agent_name)}</Field>}
        {str(task.caller_type) && <Field name="Caller">{humanize(str(task.caller_type)!)}</Field>}
        <Field name="Time">
          <Duration from={task.started_at} to={ended} />
        </Field>
        <Field name="Started">
          <Ago at={task.started_at} />
        </Field>
        {parseTime(ended) !== null && (
          <Field name="Ended">
            <Ago at={ended} />
          </Field>
        )}
        {typeof task.phase === "number" && <Field name={{ track: "Phase", plan: "Level", job: "Step" }[answer.run.kind]}>{task.phase}{str(task.phase_name) && ` · ${str(task.phase_name)}`}</Field>}
        {typeof task.tokens === "number" && task.tokens > 0 && <Field name="Tokens">{tokens(task.tokens)}</Field>}
        {typeof task.attempts === "number" && task.attempts > 1 && <Field name="Attempts">{task.attempts}</Field>}
        {str(task.error) && <Field name="Error">{str(task.error)}</Field>}
      </Fields>
      <StaleInput entries={task.stale_input} />
      {Boolean(get("manual_review_needed")) && (
        <div class="callout">
          <State status="manual_review" /> <span>{str(get("manual_review_reason")) ?? str(get("review_reason")) ?? "The agent asks a person to review this."}</span>
        </div>
      )}
      <OutcomeParts summary={summary} get={get} Heading={isPage ? "h2" : "h3"} />
      <Evidence evidence={answer.evidence} />
      {answer.attempts && answer.attempts.length > 0 && (
        <Section title="Attempts of agents" count={answer.attempts.length}>
          <AttemptList attempts={[...answer.attempts].reverse()} label="Attempts of agents" ofTask />
        </Section>
      )}
      {answer.words && answer.words.length > 0 && (
        <Section title="What people told" count={answer.words.length}>
          <Words list={answer.words} />
        </Section>
      )}
      {isPlanned && <TaskLandings task={task.id} />}
      {isPlanned && <Rewinds task={task.id} />}
      <Scope answer={answer} />
      <RelatedTasks title="Subtasks" list={answer.children} />
      <RelatedTasks title="Depends on" list={answer.depends_on} />
      <RelatedTasks title="Required by" list={answer.dependents} />
      {Array.isArray(task.attempts) && (
        <Section title="Reviews" count={task.attempts.length}>
          <Override reason={str(task.override_reason)} />
          <Waiting reason={task.waiting_reason as string | undefined} />
          <GateDecisions decisions={task.gate_decisions as GateDecision[] | undefined} />
          <Attempts attempts={task.attempts as Attempt[]} />
          <Rounds rounds={task.rounds as ReviewRound[] | undefined} />
        </Section>
      )}
      {answer.milestones && answer.milestones.length > 0 && (
        <Section title="Milestones" count={answer.milestones.length}>
          <Milestones list={answer.milestones} />
        </Section>
      )}
      {answer.checkpoints && answer.checkpoints.length > 0 && (
        <Section title="Checkpoints" count={answer.checkpoints.length}>
          <Checkpoints list={answer.checkpoints} />
        </Section>
      )}
      {answer.issues && answer.issues.length > 0 && (
        <Section title="Issues" count={answer.issues.length}>
          <ul class="cards">{answer.issues.map((issue) => <IssueCard key={issue.id} issue={issue} onDone={onDone} />)}</ul>
        </Section>
      )}
      {answer.decisions && answer.decisions.length > 0 && (
        <Section title="Decisions" count={answer.decisions.length}>
          <ul class="cards">{answer.decisions.map((decision) => <DecisionCard key={decision.id} decision={decision} />)}</ul>
        </Section>
      )}
      {answer.files_count !== 0 && answer.run.kind !== "job" && (
        <Section title="Changes" count={answer.files_count}>
          <TaskDiffs task={task.id} />
        </Section>
      )}
      {answer.commits && answer.commits.length > 0 && (
        <Section title="Commits" count={answer.commits.length}>
          <ul class="plain">
            {answer.commits.slice(0, 100).map((commit) => (
              <li>
                <CommitLink commit={String(commit.sha ?? commit.commit ?? commit.hash ?? "")} /> {String(commit.subject ?? commit.message ?? "")}
              </li>
            ))}
          </ul>
        </Section>
      )}
      <details class="more">
        <summary>As JSON</summary>
        <pre tabIndex={0}>{JSON.stringify(answer, null, 2)}</pre>
      </details>
    </>
  );
}

function RelatedTasks({ title, list: tasks }: { title: string; list: RelatedTask[] | null | undefined }) {
  if (!tasks?.length) return null;
  return (
    <Section title={title} count={tasks.length}>
      <ul class="plain">
        {tasks.slice(0, 200).map((each) => (
          <li data-item>
            {each.status && <StateMark status={each.status} />} <a href={taskAddress(each.id)}>{each.name}</a>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function OutcomeParts({ summary, get, Heading }: { summary: string | null; get: (name: string) => unknown; Heading: "h2" | "h3" }) {
  const lists: [string, string[], string][] = [
    ["Achieved", list(get("achievements")), "plus"],
    ["Limitations", list(get("limitations")), "minus"],
    ["Next steps", list(get("next_steps")), "next"],
    ["Packages", list(get("packages_added")).concat(list(get("packages"))), "plain-list"],
    ["Commands", list(get("commands_executed")).concat(list(get("commands"))), "commands"],
  ];
  const tests = (get("tests_status") ?? get("tests")) as unknown;
  if (!summary && !tests && lists.every(([, items]) => items.length === 0)) return null;
  const testWord = typeof tests === "string" ? tests : tests && typeof tests === "object" ? String((tests as Record<string, unknown>).status ?? "") : "";
  return (
    <div class="outcome">
      {summary && (
        <Part Heading={Heading} title="Outcome">
          <Prose text={summary} longest={2000} />
        </Part>
      )}
      {testWord && (
        <Part Heading={Heading} title="Tests">
          <State status={testWord === "not_run" ? "skipped" : testWord} word={humanize(testWord)} isSmall />
        </Part>
      )}
      {lists.map(
        ([title, items, style]) =>
          items.length > 0 && (
            <Part Heading={Heading} title={title}>
              <ul class={style}>{items.map((item) => <li>{style === "commands" ? <code>{item}</code> : <Prose text={item} />}</li>)}</ul>
            </Part>
          ),
      )}
    </div>
  );
}

function Part({ title, children, Heading }: { title: string; children: ComponentChildren; Heading: "h2" | "h3" }) {
  return (
    <div>
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

function Scope({ answer }: { answer: TaskAnswer }) {
  const areas = list(answer.task.areas);
  const verdict = answer.verification;
  if (areas.length === 0 && !verdict) return null;
  return (
    <Section title="Scope">
      <p>
        {verdict && <State status={verdict.scope_match ? "passed" : "partial"} word={verdict.scope_match ? "within scope" : "outside scope"} isSmall />}{" "}
        {areas.map((area) => (
          <code class="area">{area}</code>
        ))}
        {areas.length === 0 && <span class="faint">No areas declared: everything is in scope.</span>}
      </p>
      {verdict?.unexpected_files && verdict.unexpected_files.length > 0 && (
        <>
          <p class="label">{formatCount(verdict.unexpected_files.length, "unexpected file")}</p>
          <ul class="plain">{verdict.unexpected_files.slice(0, 100).map((path) => <li><code>{path}</code></li>)}</ul>
        </>
      )}
      {verdict?.warnings?.map((warning) => (
        <p class="stale-note">{warning}</p>
      ))}
    </Section>
  );
}

function Milestones({ list: all }: { list: Milestone[] }) {
  return (
    <ol class="milestones">
      {all.slice(-100).map((each) => (
        <li>
          <span class="faint">
            <Ago at={each.created_at} />
          </span>
          <span>
            {typeof each.metadata?.verdict === "string" && typeof each.metadata.by === "string" && (
              <>
                <span class="kind is-shared">
                  {humanize(each.metadata.verdict)} by {each.metadata.by.replace(/^human:/, "")}
                </span>{" "}
              </>
            )}
            {each.message}
          </span>
          {each.progress != null && (
            <span class="progress">
              <progress max={100} value={each.progress} aria-label={`progress: ${each.message.slice(0, 80)}`} /> {each.progress} %
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}

const offerTell = (id: string, name: string) => ({
  label: "Tell",
  tool: "tell",
  title: `Tell whoever works on ${name}`,
  arguments: { to: id },
  asks: [{ name: "text", label: "What should the agent know?" }],
});

const REACHES = {
  next_call: "reaches its agent after the tool call that it is in",
  next_start: "opens the next start of its agent",
  next_agent: "opens the prompt of the next agent",
  refusal: "reaches the next agent if you refuse the work, and nobody if you approve it",
  never: "never delivered: the task is done",
};

function Words({ list: all }: { list: Word[] }) {
  return (
    <ol class="milestones">
      {all.map((each) => (
        <li key={each.id}>
          <span class="faint">
            <Ago at={each.at} />
          </span>
          <span>
            <span class="kind">{each.by}</span> {each.text}{" "}
            <span class="faint">
              {each.delivered_at ? (
                <>
                  delivered <Ago at={each.delivered_at} />
                  {each.start && `, in start ${each.start} of ${each.attempt_id}`}
                </>
              ) : (
                each.reaches && REACHES[each.reaches]
              )}
            </span>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Checkpoints({ list: all }: { list: Checkpoint[] }) {
  return (
    <ol class="milestones">
      {all.slice(-100).map((each) => (
        <li>
          <span class="faint">
            <Ago at={each.created_at} />
          </span>
          <span>
            <span class={each.type === "replan" ? "kind is-shared" : "kind"}>{humanize(each.type)}</span> {each.summary}
            {each.detail && (
              <details>
                <summary>Detail</summary>
                <pre tabIndex={0}>{JSON.stringify(each.detail, null, 2)}</pre>
              </details>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

function buildPrompt(answer: TaskAnswer, goal: string | null): string {
  const { task, run } = answer;
  return [
    `Continue task ${task.id} ("${task.name}") of workflow ${run.id} ("${run.name}").`,
    goal ? `Its goal: ${goal}` : "",
    `It is ${humanize(task.status)}. Call get_context for workflow ${run.id} first.`,
  ]
    .filter(Boolean)
    .join("\n");
}
