/** What waits for a person's approval: the list, one approval with what is to be approved, and the person's proof. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { useDraft } from "../data/drafts";
import { me } from "../data/live";
import type { PersonProof } from "../data/passkeys";
import { useResource } from "../data/resource";
import type { Amounts } from "../data/shapes";
import type { PageProps } from "../routes";
import { query, runAddress, withQuery } from "../router";
import { Ago, dollars, Field, Fields, formatCount, humanize, Loaded, Section } from "../ui/parts";
import { findObstacle, prove, ProofField, useProvenCall } from "../ui/prove";
import { Shown, ShownDiff } from "../ui/shown";
import { State } from "../ui/state";
import type { Weakened } from "../data/shapes-review";
import { reveal } from "../view/reveal";
import { describeWeakening } from "../view/review";
import { ApprovalState, isOfApproval, type Approval } from "./history-approvals";

interface Difference {
  path: string;
  before?: unknown;
  after?: unknown;
  diff?: string[];
}

interface ApprovalView extends Approval {
  shown?: Record<string, unknown> | null;
  approved_before?: string | null;
  differences?: Difference[] | null;
}

interface ChangedFile {
  path: string;
  status: string;
  added?: number | null;
  removed?: number | null;
  is_binary?: boolean | null;
}

interface CheckResult {
  check: string;
  verdict: string;
  tests_run?: number | null;
  duration_ms?: number | null;
  output?: string | null;
}

/** The work that an approval is about, as it is now. */
interface WorkEvidence {
  weakened?: Weakened[] | null;
  outcome?: string | null;
  compared_with?: string | null;
  files?: ChangedFile[] | null;
  files_count?: number | null;
  patch?: string | null;
  truncated?: boolean | null;
  warning?: string | null;
  checks: CheckResult[];
  spent?: Amounts | null;
  unheard?: { id: string; by: string; text: string }[] | null;
  approve?: string | null;
  refuse?: string | null;
}

const isOfProof = (event: { type: string }): boolean => event.type.startsWith("proof:");

const useProof = () => useResource<PersonProof>("/person-proof", isOfProof);

export default function ApprovalPage({ rest: id }: PageProps) {
  const whole = query.value.has("whole");
  const found = useResource<ApprovalView>(`/approvals/${encodeURIComponent(id)}${whole ? "?whole=true" : ""}`, isOfApproval);
  return (
    <div class="page">
      <Loaded of={found}>
        {(data) => (
          <>
            <h1>
              {humanize(data.kind)}: {data.title ?? data.subject_id}
            </h1>
            <Facts approval={data} />
            {data.differences && data.approved_before && (
              <Section title="Changed since it was approved" count={data.differences.length}>
                <p class="faint">
                  Compared with <a href={`/approvals/${data.approved_before}`}>{data.approved_before}</a>. Only this differs.
                </p>
                <ul class="cards" aria-label="Changes">{data.differences.map((each) => <DifferenceCard difference={each} />)}</ul>
              </Section>
            )}
            {!data.shown && (
              <div class="actions">
                <a class="button" href={withQuery({ whole: 1 })}>Show all that is to be approved</a>
              </div>
            )}
            <Work id={id} whole={whole} shown={data.shown}>
              {data.shown && (
                <Section title={data.differences ? "All that is to be approved" : "What is to be approved"}>
                  <Shown value={data.shown} />
                </Section>
              )}
            </Work>
            {(data.status === "pending" || data.status === "refused" || data.status === "given") && <Decide approval={data} onDone={found.reload} />}
          </>
        )}
      </Loaded>
    </div>
  );
}

/** What the work changed, what its checks said, and what it cost; `children` is shown if it is about no work. */
function Work({ id, whole, shown, children }: { id: string; whole: boolean; shown?: Record<string, unknown> | null; children: ComponentChildren }) {
  const found = useResource<WorkEvidence>(`/approvals/${encodeURIComponent(id)}/evidence${whole ? "?whole=true" : ""}`, isOfApproval);
  return (
    <Loaded of={found}>
      {(work) =>
        work.patch == null ? (
          <>
            {work.warning && <p class="callout">{reveal(work.warning)}</p>}
            {children}
          </>
        ) : (
          <>
            {work.outcome && <Section title="Outcome"><Shown value={work.outcome} /></Section>}
            <Changes work={work} />
            {work.checks.length > 0 && (
              <Section title="Checks" count={work.checks.length}>
                <ul class="cards" aria-label="Checks">{work.checks.map((each) => <CheckCard check={each} />)}</ul>
              </Section>
            )}
            {work.spent && <p class="faint">It cost {dollars(work.spent.usd ?? 0)}, {formatCount(work.spent.tokens ?? 0, "token")}.</p>}
            {work.unheard?.map((word) => <p class="callout">{word.by.replace(/^human:/, "")} says: {reveal(word.text)}</p>)}
            {work.unheard && <p>No agent has heard this. If you refuse, the next one does; if you approve, nobody does.</p>}
            {work.approve && (
              <p class="faint">
                At a terminal: <code>{work.approve}</code> or <code>{work.refuse}</code>
              </p>
            )}
            {shown && (
              <details>
                <summary>Everything that the approval covers</summary>
                <Shown value={shown} />
              </details>
            )}
          </>
        )
      }
    </Loaded>
  );
}

function Changes({ work }: { work: WorkEvidence }) {
  const files = work.files ?? [];
  return (
    <Section title={work.compared_with ? "Changed since it was refused" : "What it changed"} count={work.files_count ?? files.length}>
      {work.warning && <p class="callout">{reveal(work.warning)}</p>}
      {work.weakened && (
        <div class="callout" role="note">
          <strong class="tone-bad">▲ Tests say less than before</strong>
          <ul class="plain">{work.weakened.map((each) => <li><code>{reveal(each.path)}</code> {describeWeakening(each)}</li>)}</ul>
        </div>
      )}
      {work.compared_with && (
        <p class="faint">
          Compared with <a href={`/approvals/${work.compared_with}`}>{work.compared_with}</a>. <a href={withQuery({ whole: 1 })}>Show all of the work</a>
        </p>
      )}
      <ul class="plain" aria-label="Changed files">
        {files.map((file) => (
          <li data-item>
            <code>{reveal(file.path)}</code> <span class="faint">{file.status} {file.is_binary ? "binary" : `+${file.added ?? "?"} −${file.removed ?? "?"}`}</span>
          </li>
        ))}
      </ul>
      {work.patch && <ShownDiff text={work.patch} label="Patch" />}
      {work.truncated && <p class="faint">The rest is not shown: <code>deepwork approvals show</code> shows more.</p>}
    </Section>
  );
}

function CheckCard({ check }: { check: CheckResult }) {
  const isPassed = ["passed", "flaky", "waived"].includes(check.verdict);
  return (
    <li class="card" data-item>
      <h3>
        <State status={isPassed ? "passed" : "failed"} word={humanize(check.verdict)} isSmall /> {reveal(check.check)}{" "}
        {check.tests_run != null && <span class="faint">{formatCount(check.tests_run, "test")}</span>}
      </h3>
      {check.output && <pre class="shown" tabIndex={0} aria-label={`Output of ${check.check}`} role="region">{reveal(check.output)}</pre>}
    </li>
  );
}

function Facts({ approval }: { approval: Approval }) {
  return (
    <Fields>
      <Field name="Status"><ApprovalState approval={approval} /></Field>
      <Field name="Asked by">{approval.asked_by_name ?? approval.asked_by}, <Ago at={approval.asked_at} /></Field>
      {approval.workflow_id && <Field name="Run"><a href={runAddress(approval.workflow_id)}>{approval.workflow_id}</a></Field>}
      {approval.decided_by && <Field name="Decided by">{approval.decided_by} with a {approval.method ?? "token"}, <Ago at={approval.decided_at} />{approval.used_at && <>, used <Ago at={approval.used_at} /></>}</Field>}
      {approval.comment && <Field name="Comment">{approval.comment}</Field>}
      {approval.expires_at && <Field name="Expires">{new Date(approval.expires_at).toLocaleString()}</Field>}
      <Field name="Digest"><code>{approval.digest.slice(0, 16)}</code></Field>
    </Fields>
  );
}

function DifferenceCard({ difference }: { difference: Difference }) {
  return (
    <li class="card">
      <h3><code>{reveal(difference.path)}</code></h3>
      {difference.diff ? (
        <ShownDiff text={difference.diff.join("\n")} label={`Changes in ${difference.path}`} />
      ) : (
        <Fields>
          {"before" in difference && <Field name="Before"><Shown value={difference.before} /></Field>}
          {"after" in difference && <Field name="Now"><Shown value={difference.after} /></Field>}
        </Fields>
      )}
    </li>
  );
}

function Decide({ approval, onDone }: { approval: ApprovalView; onDone: () => void }) {
  const proof = useProof();
  const form = useRef<HTMLFormElement>(null);
  const draft = useDraft(`approval:${approval.id}`);
  const { isBusy, error, call } = useProvenCall(() => {
    draft.clear();
    onDone();
  });
  if (!me.value.actions?.includes("give_approval")) return <p class="faint">This token is not a person's, or the server is read-only: you can only look.</p>;
  const decide = (verdict: "approve" | "refuse") => (event: Event) => {
    event.preventDefault();
    if (!form.current?.reportValidity() || !proof.data) return;
    const decided = approval.decided_at ? Date.parse(approval.decided_at) : 0;
    const parts = [verdict, approval.id, approval.digest, String(decided)];
    const comment = String(new FormData(form.current).get("comment") ?? "").trim();
    const given = { approval_id: approval.id, ...(comment ? { comment } : {}) };
    void call(verdict === "approve" ? "Approved." : "Refused.", verdict === "approve" ? "give_approval" : "refuse_approval", async () => ({
      ...given,
      proof: await prove(proof.data!, form.current!, parts),
    }));
  };
  return (
    <Section title="Your decision">
      <Loaded of={proof} rows={2}>
        {(known) => {
          const obstacle = findObstacle(known);
          if (obstacle) return <p class="form-error" role="alert">{obstacle}</p>;
          return (
            <form ref={form} class="decide" onSubmit={decide("approve")}>
              <label class="ask">
                <span>Comment (optional; the agent reads it)</span>
                <textarea name="comment" rows={3} value={draft.text} onInput={(event) => draft.set(event.currentTarget.value)} />
              </label>
              <ProofField proof={known} />
              {error && <p class="form-error" role="alert">{error}</p>}
              <div class="actions">
                {approval.status !== "given" && <button type="submit" class="button primary" disabled={isBusy}>Approve</button>}
                {approval.status !== "refused" && <button type="button" class="button danger" disabled={isBusy} onClick={decide("refuse")}>Refuse</button>}
              </div>
            </form>
          );
        }}
      </Loaded>
    </Section>
  );
}
