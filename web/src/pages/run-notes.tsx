/** Cards for decisions and issues, of one run or of all. */

import { useState } from "preact/hooks";
import { useResource } from "../data/resource";
import type { Action, Decision, Issue } from "../data/shapes";
import { query, runAddress, taskAddress } from "../router";
import { Actions } from "../ui/actions";
import { Ago, Empty, Loaded, formatCount, Prose, humanize } from "../ui/parts";
import { State } from "../ui/state";
import { Choice, useQueryText } from "./runs";

export const CATEGORIES = ["architecture", "library_choice", "trade_off", "workaround", "other"];
export const ISSUE_TYPES = ["documentation_gap", "bug_encountered", "dependency_conflict", "unclear_requirement", "other"];
const STEP = 50;

export function DecisionsTab({ run }: { run: string }) {
  const list = useResource<{ decisions: Decision[]; total?: number }>(`/runs/${encodeURIComponent(run)}/decisions?limit=500`, (event) => event.workflow_id === run && event.type === "decision:created");
  const [typed, setTyped] = useQueryText("q");
  const text = (query.value.get("q") ?? "").toLowerCase();
  const category = query.value.get("category") ?? "";
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Decisions">
        <input type="search" data-search placeholder="Filter decisions" aria-label="Filter decisions" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="category" label="Category" none="All categories" options={CATEGORIES.map((each) => [each, humanize(each)])} />
      </div>
      <Loaded of={list}>
        {(data) => {
          const shown = data.decisions.filter((each) => (!category || each.category === category) && (!text || JSON.stringify(each).toLowerCase().includes(text)));
          if (shown.length === 0) return <Empty title={data.decisions.length ? "No matching decisions" : "No decisions recorded"} />;
          return <GrowingList items={shown} total={data.total ?? shown.length} noun="decision">{(each) => <DecisionCard key={each.id} decision={each} />}</GrowingList>;
        }}
      </Loaded>
    </>
  );
}

export function IssuesTab({ run }: { run: string }) {
  const list = useResource<{ issues: Issue[]; total?: number }>(`/runs/${encodeURIComponent(run)}/issues?limit=500`, (event) => event.workflow_id === run && event.type.startsWith("issue:"));
  const [typed, setTyped] = useQueryText("q");
  const text = (query.value.get("q") ?? "").toLowerCase();
  const type = query.value.get("type") ?? "";
  const state = query.value.get("state") ?? "";
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Issues">
        <input type="search" data-search placeholder="Filter issues" aria-label="Filter issues" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="state" label="State" none="Open and resolved" options={[["open", "Open"], ["resolved", "Resolved"], ["human", "Needs a person"]]} />
        <Choice name="type" label="Type" none="All types" options={ISSUE_TYPES.map((each) => [each, humanize(each)])} />
      </div>
      <Loaded of={list}>
        {(data) => {
          const shown = data.issues.filter(
            (each) =>
              (!type || each.type === type) &&
              (!state || (state === "resolved" ? Boolean(each.resolved_at) : state === "open" ? !each.resolved_at : !each.resolved_at && each.requires_human_review)) &&
              (!text || JSON.stringify(each).toLowerCase().includes(text)),
          );
          if (shown.length === 0) return <Empty title={data.issues.length ? "No matching issues" : "No issues recorded"} />;
          return <GrowingList items={shown} total={data.total ?? shown.length} noun="issue">{(each) => <IssueCard key={each.id} issue={each} onDone={list.reload} />}</GrowingList>;
        }}
      </Loaded>
    </>
  );
}

/** A list that shows some items, and more on request, to keep the page light. */
export function GrowingList<T>({ items, total, noun, children }: { items: T[]; total: number; noun: string; children: (item: T) => preact.JSX.Element }) {
  const [shown, setShown] = useState(STEP);
  return (
    <>
      <h2 class="unseen">{noun[0]!.toUpperCase() + noun.slice(1)}s</h2>
      <ul class="cards" aria-label={`${noun}s`}>{items.slice(0, shown).map(children)}</ul>
      {(items.length > shown || total > items.length) && (
        <p class="faint list-note">
          {Math.min(shown, items.length)} of {formatCount(Math.max(total, items.length), noun)}
          {items.length > shown && (
            <button type="button" class="button tiny" onClick={() => setShown(shown + STEP)}>
              Show {Math.min(STEP, items.length - shown)} more
            </button>
          )}
        </p>
      )}
    </>
  );
}

export function DecisionCard({ decision }: { decision: Decision }) {
  const others = (decision.options_considered ?? []).filter((option) => option !== decision.chosen);
  return (
    <li class="card" data-item>
      <div class="card-head">
        <span class="kind">{humanize(decision.category)}</span>
        <h3>{decision.question}</h3>
      </div>
      <p class="chosen">
        <State status="passed" word="chosen" isSmall /> <strong>{decision.chosen}</strong>
      </p>
      {others.length > 0 && (
        <p class="faint">
          <span class="label">not chosen</span> {others.join(" · ")}
        </p>
      )}
      {decision.reasoning && <Prose text={decision.reasoning} longest={1000} />}
      {decision.trade_offs && (
        <div class="trade">
          <span class="label">trade-offs</span>
          <Prose text={decision.trade_offs} longest={600} />
        </div>
      )}
      <Where note={decision} />
    </li>
  );
}

export function IssueCard({ issue, onDone }: { issue: Issue; onDone: () => void }) {
  const actions: Action[] =
    issue.actions ?? (issue.resolved_at ? [] : [{ label: "Resolve", tool: "resolve_issue", arguments: { issue_id: issue.id }, asks: [{ name: "note", label: "How was it resolved? Agents read this." }] }]);
  return (
    <li class="card" data-item data-issue={issue.id}>
      <div class="card-head">
        {issue.resolved_at ? <State status="resolved" /> : <State status={issue.requires_human_review ? "blocker" : "open"} />}
        <span class="kind">{humanize(issue.type)}</span>
        <div class="card-actions">
          <Actions actions={actions} onDone={onDone} />
        </div>
      </div>
      <Prose text={issue.description} longest={1200} />
      {issue.resolution && (
        <div class="trade">
          <span class="label">what the agent did</span>
          <Prose text={issue.resolution} longest={600} />
        </div>
      )}
      {issue.resolved_at && (
        <div class="trade">
          <span class="label">resolved</span>
          <p>
            {issue.resolution_note} <span class="faint">{issue.resolved_by && <>{issue.resolved_by}, </>}<Ago at={issue.resolved_at} /></span>
          </p>
        </div>
      )}
      <Where note={issue} />
    </li>
  );
}

function Where({ note }: { note: Decision | Issue }) {
  return (
    <p class="faint where">
      {note.run && (
        <>
          <a href={runAddress(note.run.id)}>{note.run.name}</a> ›{" "}
        </>
      )}
      {note.task_id && <a data-main href={taskAddress(note.task_id)}>{note.task_name ?? note.task_id}</a>}
      {note.agent_name && <> · {note.agent_name}</>} · <Ago at={note.created_at} />
    </p>
  );
}
