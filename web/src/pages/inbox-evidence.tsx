/** What stands beside a question of the inbox: all that belongs to one decision. */

import { useResource } from "../data/resource";
import type { InboxEvidence, InboxItem, ItemCheck } from "../data/shapes-inbox";
import { Ago, dollars, formatCount, humanize, Loaded, Prose, Section, tokens } from "../ui/parts";
import { Patch } from "../ui/patch";
import { Shown } from "../ui/shown";
import { parseColors } from "../view/ansi";
import { reveal } from "../view/reveal";

const affectsEvidence = (event: { type: string; workflow_id?: string | null }, run?: string): boolean =>
  /^(approval|landing|budget|check|plan_task|issue|session|review|inbox|comment)/.test(event.type) && (!run || !event.workflow_id || event.workflow_id === run);

export function Evidence({ item }: { item: InboxItem }) {
  const found = useResource<InboxEvidence>(`/inbox/evidence?item=${encodeURIComponent(item.id)}`, (event) => affectsEvidence(event, item.run?.id));
  return <Loaded of={found.data ? { ...found, error: null } : found} rows={8}>{(data) => <Parts item={item} evidence={data} />}</Loaded>;
}

function Parts({ item, evidence }: { item: InboxItem; evidence: InboxEvidence }) {
  const { blocks, last_words: words } = evidence;
  const red = evidence.checks.filter((each) => !isGreen(each));
  const green = evidence.checks.filter(isGreen);
  return (
    <div class="inbox-evidence">
      {evidence.question !== item.title && <div class="inbox-question"><Prose text={evidence.question} /></div>}
      {(evidence.weakened?.length ?? 0) > 0 && (
        <div class="callout tone-bad" role="note">
          <strong>Tests say less than before.</strong>
          <ul>{evidence.weakened!.map((each) => <li><Shown value={each} /></li>)}</ul>
        </div>
      )}
      {item.same && (
        <Section title="Same cause" count={item.same.length}>
          <ul class="inbox-tasks">{item.same.map((part) => <li>{part.task ? <a href={`/tasks/${encodeURIComponent(part.task.id)}`}>{part.task.name}</a> : part.title}</li>)}</ul>
        </Section>
      )}
      {red.map((check) => <Check key={check.check} check={check} isOpen />)}
      {evidence.facts.filter((fact) => fact.name !== "task").map((fact) => <Fact name={fact.name} value={fact.value} />)}
      {evidence.findings.length > 0 && (
        <Section title="Findings" count={evidence.findings.length}>
          <ul class="inbox-findings">
            {evidence.findings.map((each) => (
              <li class={each.passed ? "is-passed" : "is-failed"}>
                <span aria-hidden="true">{each.passed ? "✓" : "✗"}</span>
                <span class="unseen">{each.passed ? "Passed: " : "Failed: "}</span>
                <Prose text={each.text} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {words && (
        <Section title={`Last words of ${words.agent ?? "the agent"}`} actions={<span class="faint"><Ago at={words.at} /></span>}>
          <Prose text={words.text} longest={1500} />
        </Section>
      )}
      {evidence.outcome && evidence.outcome !== words?.text && evidence.outcome !== evidence.question && (
        <Section title="Outcome">
          <Prose text={evidence.outcome} longest={1500} />
        </Section>
      )}
      {evidence.warning && <p class="callout">{reveal(evidence.warning)}</p>}
      {(evidence.files?.length ?? 0) > 0 && <Changes evidence={evidence} />}
      {evidence.shown && (
        <Section title="What is to be approved">
          <Shown value={evidence.shown} />
        </Section>
      )}
      {green.length > 0 && (
        <Section title="Checks that passed" count={green.length}>
          {green.map((check) => <Check key={check.check} check={check} />)}
        </Section>
      )}
      {evidence.facts.filter((fact) => fact.name === "task").map((fact) => <Fact name="The task" value={fact.value} />)}
      {(blocks.agents.length > 0 || blocks.tasks_total > 0) && (
        <Section title="What waits for it">
          {blocks.agents.length > 0 && <p>{formatCount(blocks.agents.length, "agent")}: {blocks.agents.join(", ")}</p>}
          {blocks.tasks_total > 0 && <p>{formatCount(blocks.tasks_total, "task")}: {blocks.tasks.join(", ")}{blocks.tasks_total > blocks.tasks.length ? " …" : ""}</p>}
        </Section>
      )}
      <Cost evidence={evidence} />
      {evidence.commands.length > 0 && (
        <p class="faint inbox-commands">
          At a terminal: {evidence.commands.map((each, index) => <>{index > 0 && " or "}<code>{each}</code></>)}
        </p>
      )}
    </div>
  );
}

const isGreen = (check: ItemCheck): boolean => ["passed", "flaky", "guarded", "waived"].includes(check.verdict);

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <Section title={humanize(name).replace(/^./, (first) => first.toUpperCase())}>
      <Prose text={value} longest={1500} />
    </Section>
  );
}

function Check({ check, isOpen }: { check: ItemCheck; isOpen?: boolean }) {
  const facts = [check.tests_run != null && formatCount(check.tests_run, "test"), check.duration_ms != null && `${(check.duration_ms / 1000).toFixed(1)} s`].filter(Boolean);
  const excerpt = check.excerpt ?? (isOpen ? check.output : null);
  return (
    <section class={`inbox-check ${isGreen(check) ? "is-passed" : "is-failed"}`} aria-label={`Check ${check.check}`}>
      <h3>
        <span aria-hidden="true">{isGreen(check) ? "✓" : "✗"}</span> {check.check} {humanize(check.verdict)}
        {facts.length > 0 && <span class="faint"> · {facts.join(" · ")}</span>}
      </h3>
      {isOpen && check.failing && check.failing.length > 0 && (
        <ul class="inbox-failing">{check.failing.map((each) => <li><code>{reveal(each)}</code></li>)}</ul>
      )}
      {excerpt && <Colored text={excerpt} label={`First failure of ${check.check}`} />}
      {check.output && check.output !== excerpt && (
        <details>
          <summary>The end of its output</summary>
          <Colored text={check.output} label={`Output of ${check.check}`} />
        </details>
      )}
      {isOpen && !check.output && <p class="faint">Its output was removed, or is on another machine.</p>}
    </section>
  );
}

function Colored({ text, label }: { text: string; label: string }) {
  return (
    <pre class="inbox-output" tabIndex={0} role="region" aria-label={label}>
      {parseColors(text).map((part) => (part.look ? <span class={part.look}>{reveal(part.text)}</span> : reveal(part.text)))}
    </pre>
  );
}

function Changes({ evidence }: { evidence: InboxEvidence }) {
  const files = evidence.files!;
  const sum = (name: "added" | "removed") => files.reduce((total, file) => total + (file[name] ?? 0), 0);
  return (
    <Section title={evidence.compared_with ? "Changed since it was refused" : "What it changed"} count={evidence.files_count ?? files.length}>
      <p class="inbox-stat">
        <span class="tone-good">+{sum("added").toLocaleString()}</span> <span class="tone-bad">−{sum("removed").toLocaleString()}</span>{" "}
        <span class="faint">in {files.slice(0, 4).map((file) => reveal(file.path)).join(", ")}{files.length > 4 ? ` and ${files.length - 4} more` : ""}</span>
      </p>
      {evidence.patch && <Patch text={evidence.patch} />}
      {evidence.truncated && <p class="faint">The patch is cut here: <code>deepwork diff</code> shows all of it.</p>}
    </Section>
  );
}

function Cost({ evidence }: { evidence: InboxEvidence }) {
  const { spent, budget } = evidence;
  if (!spent || !(spent.usd || spent.tokens)) return null;
  return (
    <p class="faint">
      It cost {dollars(spent.usd ?? 0)}{budget?.usd ? ` of ${dollars(budget.usd)}` : ""}, {tokens(spent.tokens ?? 0)} tokens{spent.minutes ? `, ${Math.round(spent.minutes)} minutes of work` : ""}.
    </p>
  );
}
