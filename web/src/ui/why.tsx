/** Why code exists: commit, task, goal, decisions, checks, approvals, agents, cost and transcript. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useResource } from "../data/resource";
import type { CommitOrigin, TaskChain, WhyAnswer, WhyAttempt, WhyLink } from "../data/shapes";
import { runAddress, taskAddress } from "../router";
import { reveal } from "../view/reveal";
import { explainLink, formatLines, whyQuery, type WhyQuestion } from "../view/why";
import { Output } from "./attempts";
import { Dialog } from "./dialog";
import { Ago, dollars, Empty, formatCount, humanize, Loaded, Prose, tokens } from "./parts";
import { State } from "./state";

export const whyAddress = (question: WhyQuestion): string => `/history?show=why&${whyQuery(question)}`;

/** A commit, short, with a link to why it exists. */
export function CommitLink({ commit }: { commit: string }) {
  return (
    <a class="commit" href={whyAddress({ commit })} title={`Why does ${commit} exist?`}>
      <code>{commit.slice(0, 10)}</code>
    </a>
  );
}

/** The chain behind something, in a dialog. `address` is that of the answer. */
export function WhyDialog({ title, address, onClose }: { title: string; address: string; onClose: () => void }) {
  const answer = useResource<WhyAnswer>(address);
  return (
    <Dialog title={title} onClose={onClose} wide>
      <div class="why">
        <Loaded of={answer} rows={6}>{(data) => <WhyView answer={data} />}</Loaded>
      </div>
    </Dialog>
  );
}

export function WhyView({ answer }: { answer: WhyAnswer }) {
  const hidden = answer.commits_total - answer.commits.length;
  const known = new Map(answer.tasks.map((task) => [task.id, task.name]));
  return (
    <>
      {answer.changed_by && <ChangedBy answer={answer} name={known.get(answer.changed_by)} />}
      {answer.commits.map((commit) => <CommitCard key={commit.commit} commit={commit} names={known} />)}
      {hidden > 0 && <p class="faint">and {formatCount(hidden, "more commit", "more commits")}</p>}
      {answer.uncommitted && <Uncommitted answer={answer} />}
      {answer.tasks.map((task) => <Chain key={task.id} task={task} />)}
      {answer.tasks.length === 0 && answer.commits.length === 0 && !answer.uncommitted && <Empty title="Nothing is known about it" />}
    </>
  );
}

/** That the task whose diff is shown changed the line. */
function ChangedBy({ answer, name }: { answer: WhyAnswer; name?: string }) {
  return (
    <p>
      <Certainty word={answer.changed_by_certainty} /> changed by <a href={taskAddress(answer.changed_by!)}>{reveal(name ?? answer.changed_by!)}</a>
      {answer.changed_by_certainty !== "certain" && <>; another task may have changed the file at the same time</>}
    </p>
  );
}

function Certainty({ word }: { word?: string | null }) {
  return word === "certain" ? <State status="passed" word="certain" isSmall /> : <State status="partial" word="likely" isSmall />;
}

function CommitCard({ commit, names }: { commit: CommitOrigin; names: Map<string, string> }) {
  return (
    <section class="card" aria-label={`Commit ${commit.commit.slice(0, 10)}`}>
      <div class="card-head">
        <CommitLink commit={commit.commit} />
        <h3>{reveal(commit.subject)}</h3>
        <span class="faint">{reveal(commit.author)}, <Ago at={commit.committed_at} /></span>
      </div>
      {(commit.lines || commit.path) && (
        <p class="faint">{commit.lines && formatLines(commit.lines)} {commit.path && <>then in <code>{reveal(commit.path)}</code></>}</p>
      )}
      {commit.links.map((link) => <Link link={link} name={names.get(link.task_id)} />)}
      {commit.problems?.map((problem) => <p class="tone-bad"><State status="failed" word="forged" isSmall /> Its trailers are not true: {reveal(problem)}</p>)}
      {commit.note && <p class="faint">{commit.note}</p>}
    </section>
  );
}

function Link({ link, name }: { link: WhyLink; name?: string }) {
  return (
    <p>
      <Certainty word={link.certainty} /> made by <a href={taskAddress(link.task_id)}>{reveal(name ?? link.task_id)}</a>: {explainLink(link.known_by)}
    </p>
  );
}

function Uncommitted({ answer }: { answer: WhyAnswer }) {
  return (
    <p>
      <State status="pending" word="not committed" isSmall /> {formatLines(answer.uncommitted!)}
      {answer.running_tasks && answer.running_tasks.length > 0 && (
        <>
          {" "}; likely written by a task that runs in this tree now: {answer.running_tasks.map((id, index) => <>{index > 0 && ", "}<a href={taskAddress(id)}>{id}</a></>)}
        </>
      )}
    </p>
  );
}

const GOALS: Record<string, string> = { plan: "Plan", tracked_workflow: "Tracked workflow", job: "Job" };

/** One task, and what led to it and followed from it, as a chain. */
function Chain({ task }: { task: TaskChain }) {
  return (
    <ol class="chain" aria-label={`Why: ${task.name}`}>
      <Ring name="Task">
        <p><a href={taskAddress(task.id)}><strong>{reveal(task.name)}</strong></a> {task.status && <State status={task.status} isSmall />}</p>
        {task.description && <Prose text={reveal(task.description)} longest={400} />}
        {task.outcome && <Prose text={reveal(task.outcome)} longest={400} />}
      </Ring>
      {task.goal && (
        <Ring name="Goal">
          <p><a href={runAddress(task.goal.id)}>{reveal(task.goal.name)}</a> <span class="kind">{GOALS[task.goal.kind] ?? humanize(task.goal.kind)}</span></p>
          {task.goal.text && <Prose text={reveal(task.goal.text)} longest={400} />}
        </Ring>
      )}
      {task.decisions.length > 0 && (
        <Ring name="Decisions">
          <ul class="plain">{task.decisions.map((each) => <li>{each.question && <>{reveal(each.question)} </>}<strong>{reveal(each.chosen)}</strong>{each.reasoning && <span class="faint"> {reveal(each.reasoning)}</span>}</li>)}</ul>
        </Ring>
      )}
      <Ring name="Checks">
        {task.checks.length === 0 ? <span class="faint">None recorded</span> : (
          <ul class="plain">{task.checks.map((each) => <li><State status={each.waived_by || each.verdict === "passed" ? "passed" : each.verdict} word={humanize(each.verdict)} isSmall /> {reveal(each.check)} {each.waived_by && <span class="faint">waived by {each.waived_by.replace(/^human:/, "")} </span>}<code class="faint">{each.proof_id}</code></li>)}</ul>
        )}
      </Ring>
      <Ring name="Approval">
        {task.approvals.length === 0 ? <span class="faint">None recorded</span> : (
          <ul class="plain">{task.approvals.map((each) => <li><a href={`/approvals/${each.id}`}>{humanize(each.kind)}</a> {humanize(each.status)} {each.decided_by && <>by {each.decided_by.replace(/^human:/, "")}</>} {each.decided_at && <span class="faint"><Ago at={each.decided_at} /></span>} {each.comment && <>“{reveal(each.comment)}”</>}</li>)}</ul>
        )}
      </Ring>
      {task.landings && task.landings.length > 0 && (
        <Ring name="Landing">
          <ul class="plain">{task.landings.map((each) => <li><State status={each.status} isSmall /> <a href={`/landings/${each.id}`}>on {reveal(each.branch ?? each.target)}</a> {each.merge_commit && <CommitLink commit={each.merge_commit} />}</li>)}</ul>
        </Ring>
      )}
      <Ring name="Agent"><Makers task={task} /></Ring>
    </ol>
  );
}

function Ring({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <li>
      <span class="chain-name">{name}</span>
      <div class="chain-body">{children}</div>
    </li>
  );
}

function Makers({ task }: { task: TaskChain }) {
  const cost = [task.models.join(", "), task.tokens ? `${tokens(task.tokens)} tokens` : "", task.usd != null ? dollars(task.usd) : ""].filter(Boolean).join(" · ");
  return (
    <>
      {task.agents.length === 0 && task.attempts.length === 0 && <span class="faint">Unknown</span>}
      {task.agents.length > 0 && <p>{task.agents.map((each, index) => <>{index > 0 && ", "}{reveal(each.name)}{each.runtime && <span class="faint"> {each.runtime}</span>}</>)}</p>}
      {cost && <p class="faint">{cost}</p>}
      {task.attempts.length > 0 && <ul class="plain">{task.attempts.map((each) => <AttemptLine attempt={each} />)}</ul>}
    </>
  );
}

function AttemptLine({ attempt }: { attempt: WhyAttempt }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <State status={attempt.stage} isSmall /> attempt {attempt.number} with <span class="kind">{reveal(attempt.profile)}</span> {reveal(attempt.model ?? "model unknown")} · {tokens(attempt.tokens)} tokens · <span title={attempt.usd_source ?? undefined}>{dollars(attempt.usd)}</span>{attempt.made_it && <> · <strong>made it</strong></>}{" "}
      {attempt.transcript ? (
        <button type="button" class="button tiny" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>Transcript</button>
      ) : (
        <span class="faint">no transcript on this machine</span>
      )}
      {isOpen && <Output attempt={{ id: attempt.id, ended_at: "ended", tree: attempt.transcript }} />}
    </li>
  );
}
