/** All runs. The server searches, filters, sorts and paginates; the URL holds the settings. */

import { useEffect, useRef, useState } from "preact/hooks";
import { supportsParameter } from "../data/openapi";
import { anyOf, useResource } from "../data/resource";
import type { RunLine, RunsAnswer } from "../data/shapes";
import { go, query, replace, withQuery } from "../router";
import { Empty, Loaded, formatCount } from "../ui/parts";
import { RunList } from "../ui/runlist";
import { getLook } from "../ui/state";
import { JobDefinitions } from "./runs-jobs";

const STATES = ["in_progress", "blocked", "completed", "failed", "planning", "ready", "paused", "abandoned", "active", "aborted"];
const PASSED = ["kind", "status", "profile", "q", "agent", "since", "until", "sort", "order", "cursor"];

const affectsRuns = anyOf("workflow", "phase", "task", "plan", "plan_task", "session", "issue", "review");

export default function Runs() {
  const wanted = new URLSearchParams();
  for (const name of PASSED) {
    const value = query.value.get(name);
    if (value) wanted.set(name, name === "until" && value.length === 10 ? `${value}T23:59:59Z` : name === "since" && value.length === 10 ? `${value}T00:00:00Z` : value);
  }
  wanted.set("limit", "50");
  const address = `/runs?${wanted}`;
  const runs = useResource<RunsAnswer>(address, affectsRuns);
  const isFiltered = PASSED.some((name) => !["sort", "order", "cursor"].includes(name) && query.value.has(name));
  return (
    <div class="page">
      <h1>Runs</h1>
      <Filters />
      <Loaded of={runs} rows={10}>
        {(data) =>
          data.runs.length === 0 ? (
            <Empty title={isFiltered ? "No matching runs" : "No runs yet"}>
              {isFiltered ? (
                <a class="button" href={location.pathname}>
                  Show all
                </a>
              ) : (
                <p>Every job, plan and tracked workflow appears here.</p>
              )}
            </Empty>
          ) : (
            <StableRunList answer={data} key={address} />
          )
        }
      </Loaded>
      {query.value.get("kind") === "job" && <JobDefinitions />}
    </div>
  );
}

/** Keeps rows in place while they change; new runs appear on request. */
function StableRunList({ answer }: { answer: RunsAnswer }) {
  const [order, setOrder] = useState(() => answer.runs.map((run) => run.id));
  const known = useRef(new Map<string, RunLine>());
  for (const run of answer.runs) known.current.set(run.id, run);
  const fresh = answer.runs.filter((run) => !order.includes(run.id)).length;
  return (
    <>
      <p class="faint list-note" aria-live="off">
        {formatCount(answer.total, "run")}
        {fresh > 0 && (
          <button type="button" class="button tiny" onClick={() => setOrder(answer.runs.map((run) => run.id))}>
            Show {formatCount(fresh, "new run")}
          </button>
        )}
      </p>
      <RunList runs={order.flatMap((id) => known.current.get(id) ?? [])} label="Runs" />
      <div class="pager">
        {query.value.has("cursor") && (
          <a class="button" href={withQuery({ cursor: null })}>
            First page
          </a>
        )}
        {answer.cursor && (
          <a class="button" href={withQuery({ cursor: answer.cursor })} rel="next">
            Next page
          </a>
        )}
      </div>
    </>
  );
}

export function useQueryText(name: string): [string, (text: string) => void] {
  const inAddress = query.value.get(name) ?? "";
  const [text, setText] = useState(inAddress);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(inAddress), [inAddress]);
  return [
    text,
    (next) => {
      setText(next);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => replace(withQuery({ [name]: next, cursor: null })), 220);
    },
  ];
}

export function Choice({ name, label, options, none }: { name: string; label: string; options: [string, string][]; none?: string }) {
  return (
    <label class="choice">
      <span class="unseen">{label}</span>
      <select value={query.value.get(name) ?? ""} onChange={(event) => go(withQuery({ [name]: event.currentTarget.value, cursor: null }))}>
        {none !== undefined && <option value="">{none}</option>}
        {options.map(([value, word]) => (
          <option value={value}>{word}</option>
        ))}
      </select>
    </label>
  );
}

const ORDERS: [string, string][] = [
  ["-", "Newest first"],
  ["started-asc", "Oldest first"],
  ["updated-", "Recently updated first"],
  ["name-asc", "By name"],
];

function Order() {
  const current = `${query.value.get("sort") ?? ""}-${query.value.get("order") ?? ""}`;
  return (
    <label class="choice">
      <span class="unseen">Order</span>
      <select
        value={current}
        onChange={(event) => {
          const [sort, order] = event.currentTarget.value.split("-");
          go(withQuery({ sort, order, cursor: null }));
        }}
      >
        {ORDERS.map(([value, word]) => (
          <option value={value}>{word}</option>
        ))}
      </select>
    </label>
  );
}

function Filters() {
  const [words, setWords] = useQueryText("q");
  const [agent, setAgent] = useQueryText("agent");
  const set = (name: string) => (event: { currentTarget: HTMLInputElement }) => go(withQuery({ [name]: event.currentTarget.value, cursor: null }));
  return (
    <form class="filters" role="search" aria-label="Filter runs" onSubmit={(event) => event.preventDefault()}>
      <input type="search" data-search placeholder="Name or objective" aria-label="Name or objective" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      <Choice name="kind" label="Kind" none="All kinds" options={[["track", "Tracked"], ["plan", "Plans"], ["job", "Jobs"]]} />
      <Choice name="status" label="State" none="All states" options={STATES.map((state) => [state, getLook(state).word])} />
      {supportsParameter("/runs", "profile") && <Choice name="profile" label="Profile" none="All profiles" options={[["simple", "Simple"], ["standard", "Standard"], ["complex", "Complex"]]} />}
      <input type="search" class="short" placeholder="Agent" aria-label="Agent" value={agent} onInput={(event) => setAgent(event.currentTarget.value)} />
      <label class="dated">
        <span>from</span>
        <input type="date" value={query.value.get("since") ?? ""} onChange={set("since")} />
      </label>
      <label class="dated">
        <span>to</span>
        <input type="date" value={query.value.get("until") ?? ""} onChange={set("until")} />
      </label>
      <Order />
    </form>
  );
}
