/** History: the log of everything, decisions, problems, approvals, and why code exists. */

import { useEffect, useState } from "preact/hooks";
import { useResource } from "../data/resource";
import type { Decision, WhyAnswer } from "../data/shapes";
import { go, query, withQuery } from "../router";
import { subject } from "../routes";
import { Empty, formatCount, humanize, Loaded } from "../ui/parts";
import { Tabs } from "../ui/tabs";
import { WhyView, whyAddress } from "../ui/why";
import { formatQuestion, parseQuestion, whyQuery, type WhyQuestion } from "../view/why";
import { Approvals } from "./history-approvals";
import { Problems } from "./history-problems";
import { LogTab } from "./run-log";
import { CATEGORIES, DecisionCard, GrowingList } from "./run-notes";
import { Choice, useQueryText } from "./runs";

const VIEWS: Record<string, { name: string; Shown: () => preact.JSX.Element }> = {
  log: { name: "Log", Shown: () => <LogTab /> },
  decisions: { name: "Decisions", Shown: Decisions },
  problems: { name: "Problems", Shown: Problems },
  approvals: { name: "Approvals", Shown: Approvals },
  why: { name: "Why", Shown: Why },
};

export default function History() {
  const wanted = query.value.get("show") ?? "";
  const at = wanted in VIEWS ? wanted : "log";
  const { name, Shown } = VIEWS[at]!;
  useEffect(() => {
    subject.value = at === "log" ? "History" : name;
  }, [at]);
  return (
    <div class="page">
      <h1>History</h1>
      <Tabs label="History" parameter="show" current={at} tabs={Object.entries(VIEWS).map(([key, each]) => ({ key, name: each.name }))} />
      <div class="tab-panel" role="tabpanel" id="panel" aria-labelledby={`tab-${at}`}>
        <Shown />
      </div>
    </div>
  );
}

function Decisions() {
  const [typed, setTyped] = useQueryText("q");
  const wanted = new URLSearchParams({ limit: "100" });
  for (const name of ["q", "category", "cursor"]) {
    const value = query.value.get(name);
    if (value) wanted.set(name, value);
  }
  const list = useResource<{ decisions: Decision[]; total: number; cursor?: string | null }>(`/decisions?${wanted}`, (event) => event.type === "decision:created");
  return (
    <>
      <form class="filters" role="search" aria-label="Search decisions" onSubmit={(event) => event.preventDefault()}>
        <input type="search" data-search placeholder="Search question, choice or reasons" aria-label="Search question, choice or reasons" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="category" label="Category" none="All categories" options={CATEGORIES.map((each) => [each, humanize(each)])} />
      </form>
      <Loaded of={list}>
        {(data) =>
          data.decisions.length === 0 ? (
            <Empty title={query.value.has("q") || query.value.has("category") ? "No matching decisions" : "No decisions recorded yet"}>
              <p>Agents record a decision with the options they considered and their reasons.</p>
            </Empty>
          ) : (
            <>
              <p class="faint list-note">{formatCount(data.total, "decision")}</p>
              <GrowingList items={data.decisions} total={data.total} noun="decision">{(each) => <DecisionCard key={each.id} decision={each} />}</GrowingList>
              <div class="pager">
                {query.value.has("cursor") && <a class="button" href={withQuery({ cursor: null })}>First page</a>}
                {data.cursor && <a class="button" href={withQuery({ cursor: data.cursor })} rel="next">Next page</a>}
              </div>
            </>
          )
        }
      </Loaded>
    </>
  );
}

function readQuestion(): WhyQuestion {
  const given = query.value;
  return { path: given.get("path") ?? undefined, line: Number(given.get("line")) || undefined, commit: given.get("commit") ?? undefined };
}

function Why() {
  const question = readQuestion();
  const asked = formatQuestion(question);
  const [typed, setTyped] = useState(asked);
  useEffect(() => setTyped(asked), [asked]);
  const answer = useResource<WhyAnswer>(asked ? `/why?${whyQuery(question)}` : null);
  const ask = (event: Event) => {
    event.preventDefault();
    const next = parseQuestion(typed);
    if (next) go(whyAddress(next));
  };
  return (
    <div class="why">
      <form class="filters" role="search" aria-label="Ask why code exists" onSubmit={ask}>
        <input type="search" data-search placeholder="Commit, A..B, FILE or FILE:LINE" aria-label="Commit, range, file or line" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} spellcheck={false} />
        <button type="submit" class="button">Ask</button>
      </form>
      {question.path && question.commit && <p class="faint">As in <code>{question.commit}</code></p>}
      {asked ? (
        <Loaded of={answer}>{(data) => <WhyView answer={data} />}</Loaded>
      ) : (
        <Empty title="Which task made this?">
          <p>Name a commit, a range, a file or a line. Every line number of a diff answers it, too.</p>
        </Empty>
      )}
    </div>
  );
}
