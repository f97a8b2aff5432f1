/** The steps of a job session, with their outputs and reviews. */

import type { Attempt, Finding, GateDecision, ReviewRound, RunDetails, Step } from "../data/shapes";
import { taskAddress } from "../router";
import { Ago, Empty, Prose, Duration } from "../ui/parts";
import { State } from "../ui/state";

export function StepsTab({ run }: { run: RunDetails }) {
  const session = run.session!;
  return (
    <>
      {session.stack && session.stack.length > 1 && (
        <p class="stack">
          <span class="label">stack</span>{" "}
          {session.stack.map((entry, index) => (
            <>
              {index > 0 && " › "}
              <code>{entry.workflow}</code> {entry.step}
            </>
          ))}
        </p>
      )}
      {session.steps.length === 0 && <Empty title="No step has started" />}
      <ol class="cards steps">
        {session.steps.map((step) => (
          <StepCard key={step.id} step={step} run={run.id} isCurrent={step.id === session.step_id} />
        ))}
      </ol>
    </>
  );
}

function StepCard({ step, run, isCurrent }: { step: Step; run: string; isCurrent: boolean }) {
  const outputs = Object.entries(step.outputs ?? {});
  return (
    <li class={isCurrent ? "card is-current" : "card"} data-item aria-current={isCurrent ? "step" : undefined}>
      <div class="card-head">
        <State status={step.state ?? step.status} />
        <h3>
          <a data-main href={taskAddress(`${run}/${step.id}`)}>{step.id}</a>
        </h3>
        <span class="faint card-actions">
          <Duration from={step.started_at} to={step.completed_at ?? (isCurrent ? undefined : step.started_at)} />
        </span>
      </div>
      <Override reason={step.override_reason} />
      {outputs.length > 0 && (
        <dl class="outputs">
          {outputs.map(([name, value]) => (
            <div>
              <dt>{name}</dt>
              <dd>
                <code>{Array.isArray(value) ? value.join(", ") : typeof value === "string" ? value : JSON.stringify(value)}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {step.notes && <Prose text={step.notes} longest={600} />}
      <Waiting reason={step.waiting_reason} />
      <GateDecisions decisions={step.gate_decisions} />
      <Attempts attempts={step.attempts ?? []} />
      <Rounds rounds={step.rounds} />
      {(step.attempts_total ?? 0) > (step.attempts?.length ?? 0) && (
        <p class="faint">
          {step.attempts_total! - (step.attempts?.length ?? 0)} more submission{step.attempts_total! - (step.attempts?.length ?? 0) === 1 ? "" : "s"} for review, without a stored verdict.
        </p>
      )}
    </li>
  );
}

/** The reason with which the agent skipped the review of a step. */
export function Override({ reason }: { reason: string | null | undefined }) {
  if (!reason) return null;
  return (
    <p class="override">
      <State status="partial" word="review overridden" isSmall /> {reason}
    </p>
  );
}

const WAITING_WORDS: Record<string, string> = {
  rounds_used_up: "The rounds of its review are used up.",
  stalled: "Its review makes no progress.",
  reviewer_error: "Its reviewer gave no verdict.",
  budget: "It used up its minutes, and was sent back.",
};

/** Why only a person can decide about a step. */
export function Waiting({ reason }: { reason: string | null | undefined }) {
  if (!reason) return null;
  return (
    <p class="override">
      <State status="gate" word="waits for you" isSmall /> {WAITING_WORDS[reason] ?? reason}
    </p>
  );
}

const DECISION_WORDS: Record<string, string> = { passed: "let it pass", sent_back: "sent it back", round_granted: "granted one more review" };

/** What people decided about a step at its quality gate. */
export function GateDecisions({ decisions }: { decisions: GateDecision[] | undefined }) {
  return (
    <>
      {decisions?.map((each) => (
        <p class="override">
          <State status={each.decision === "passed" ? "passed" : "partial"} word={`${each.by} ${DECISION_WORDS[each.decision] ?? each.decision}`} isSmall /> {each.text}{" "}
          <span class="faint">
            <Ago at={each.at} />
          </span>
        </p>
      ))}
    </>
  );
}

/** The reviews of a step, with criteria, results and feedback. */
export function Attempts({ attempts }: { attempts: Attempt[] }) {
  return (
    <>
      {attempts.map((attempt, index) => (
        <details class="attempt" open={!attempt.passed && index === attempts.length - 1}>
          <summary>
            <State status={attempt.passed ? "passed" : "failed"} isSmall /> {attempt.is_self_review ? "Self-review" : "Review"} {index + 1}
            {attempt.at && (
              <span class="faint">
                {" "}
                <Ago at={attempt.at} />
              </span>
            )}
          </summary>
          {attempt.feedback && <Prose text={attempt.feedback} longest={1500} />}
          <ul class="criteria">
            {attempt.criteria?.map((criterion) => (
              <li>
                <State status={criterion.passed ? "passed" : "failed"} isSmall /> <span>{criterion.name ?? criterion.criterion}</span>
                {criterion.feedback && <Prose text={criterion.feedback} longest={600} />}
              </li>
            ))}
          </ul>
        </details>
      ))}
    </>
  );
}

/** The rounds of the reviews of a step that found something, with their findings. */
export function Rounds({ rounds }: { rounds: ReviewRound[] | null | undefined }) {
  const found = rounds?.filter((each) => each.findings.length > 0) ?? [];
  return (
    <>
      {found.map((each, index) => (
        <details class="attempt" open={!each.passed && !each.is_over && index === found.length - 1}>
          <summary>
            <State status={each.passed ? "passed" : "failed"} isSmall /> Round {each.round}
            {each.rule !== "step" && <> of {each.rule}</>}: {each.findings.length} finding{each.findings.length === 1 ? "" : "s"}
            <span class="faint">
              {" "}
              {each.disputed && "disputed, "}
              {each.is_over && "before the step began again, "}
              <Ago at={each.at} />
            </span>
          </summary>
          <ul class="criteria">
            {each.findings.map((finding) => (
              <li>
                <State status={finding.effect === "blocks" ? "failed" : "partial"} word={EFFECT_WORDS[finding.effect] ?? finding.effect} isSmall />{" "}
                <span>
                  {finding.severity} {formatPlace(finding)}
                  {finding.claim}
                </span>
                {finding.failure && <Prose text={finding.failure} longest={600} />}
              </li>
            ))}
          </ul>
        </details>
      ))}
    </>
  );
}

const EFFECT_WORDS: Record<string, string> = { blocks: "blocks", noted: "noted", late: "late, does not block", rejected: "rejected by a second reviewer" };

function formatPlace({ file, line }: Finding) {
  if (!file) return null;
  return (
    <>
      <code>{line ? `${file}:${line}` : file}</code>{" "}
    </>
  );
}
