/** What shows that work is done as required: budget and spending, checks with their proofs, open approvals. */

import type { Amounts, CheckLine, Evidence as Shown } from "../data/shapes";
import { Ago, Line, Section, dollars, formatCount, humanize } from "./parts";
import { State } from "./state";

const UNITS = ["usd", "tokens", "minutes"] as const;

export function Evidence({ evidence }: { evidence: Shown | null | undefined }) {
  if (!evidence) return null;
  const { checks, approvals } = evidence;
  return (
    <>
      <Spending evidence={evidence} />
      {checks && checks.length > 0 && (
        <Section title="Checks" count={checks.length}>
          <ul class="plain">{checks.map((check) => <Check check={check} />)}</ul>
        </Section>
      )}
      {approvals && approvals.length > 0 && (
        <Section title="Waiting for approval" count={approvals.length}>
          <ul class="plain">
            {approvals.map((each) => (
              <li data-item>
                <a href={`/approvals/${each.id}`}>{humanize(each.kind)}</a>{" "}
                <span class="faint">
                  asked <Ago at={each.asked_at} />
                </span>
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function Spending({ evidence }: { evidence: Shown }) {
  const { budget, spent, sources } = evidence;
  if (!spent && !evidence.reason && !evidence.max_unreviewed) return null;
  const limited = UNITS.filter((unit) => budget?.[unit] != null || (unit !== "minutes" && spent?.[unit]));
  return (
    <Section title="Budget">
      <ul class="plain">
        {limited.map((unit) => (
          <li>
            {format(unit, spent)} spent
            {budget?.[unit] != null && <> of {format(unit, budget)}</>}
          </li>
        ))}
        {evidence.max_unreviewed != null && <li>At most {formatCount(evidence.max_unreviewed, "result")} may wait for a person.</li>}
      </ul>
      {sources && (
        <p class="faint">
          {Object.entries(sources)
            .map(([source, usd]) => `${dollars(usd)} ${source}`)
            .join(", ")}
        </p>
      )}
      {evidence.reason && (
        <div class="callout">
          <State status="blocked" word="stopped" isSmall /> <span><Line text={evidence.reason} /></span>
        </div>
      )}
    </Section>
  );
}

function Check({ check }: { check: CheckLine }) {
  const tests = check.tests_run == null ? "" : `${formatCount(check.tests_run, "test")}${check.tests_skipped ? `, ${check.tests_skipped} skipped` : ""}`;
  const isPassed = check.verdict === "passed" || check.verdict === "flaky" || Boolean(check.waived_by);
  return (
    <li data-item>
      <State status={check.verdict ? (isPassed ? "passed" : "failed") : "pending"} word={humanize(check.verdict ?? "not proved")} isSmall /> <strong>{check.name}</strong>{" "}
      <span class="faint">
        {tests} {check.at && <Ago at={check.at} />}
      </span>
      {check.waived_by && (
        <span>
          {" "}
          waived by {check.waived_by.replace(/^human:/, "")}
          {check.waive_reason && `: ${check.waive_reason}`}
        </span>
      )}{" "}
      {check.proof_id && <code title={check.output_file ?? undefined}>{check.proof_id}</code>}
    </li>
  );
}

function format(unit: (typeof UNITS)[number], amounts: Amounts | null | undefined): string {
  const amount = amounts?.[unit] ?? 0;
  if (unit === "usd") return dollars(amount);
  return unit === "tokens" ? formatCount(amount, "token") : `${amount.toLocaleString()} min`;
}
