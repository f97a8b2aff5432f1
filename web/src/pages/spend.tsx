/** What work cost: by plan, task, agent, vendor or day, beside budgets; limits of vendors, and what the rest may cost. */

import { duration, now } from "../clock";
import { anyOf, LOOK_AGAIN, useResource } from "../data/resource";
import type { RunsAnswer } from "../data/shapes";
import type { SpendAnswer, SpendLine, VendorWindow, WorkNow } from "../data/shapes-run";
import { parseTime } from "../data/tasks";
import { query, runAddress, taskAddress, withQuery } from "../router";
import { Table } from "../ui/layout";
import { Ago, dollars, Empty, Loaded, Section, tokens } from "../ui/parts";
import { describeForecast } from "../view/forecast";
import { reveal } from "../view/reveal";
import { Choice } from "./runs";
import "./spend.css";

const WAYS: [string, string][] = [["plan", "By plan"], ["task", "By task"], ["agent", "By agent"], ["vendor", "By vendor"], ["model", "By model"], ["day", "By day"]];
const PERIODS: [string, string][] = [["1", "Today"], ["7", "7 days"], ["30", "30 days"]];
const SOURCES: Record<string, string> = { reported: "reported by the vendor", priced: "from tokens and prices", estimated: "estimated", unverified: "said by the agent" };

const affects = anyOf("spending", "budget");

export default function Spend() {
  const by = WAYS.some(([way]) => way === query.value.get("by")) ? query.value.get("by")! : "plan";
  const days = query.value.get("days");
  const run = query.value.get("run");
  const wanted = new URLSearchParams({ by: run && by === "plan" ? "task" : by, ...(days ? { days } : {}), ...(run ? { workflow_id: run } : {}) });
  const spent = useResource<SpendAnswer>(`/spending?${wanted}`, affects);
  return (
    <div class="page spend-page">
      <h1>Spend</h1>
      <div class="tools" role="toolbar" aria-label="Spending">
        <Choice name="by" label="Add up" none="By plan" options={WAYS.slice(1)} />
        <Choice name="days" label="Period" none="All time" options={PERIODS} />
        {run && (
          <a class="button" href={withQuery({ run: null })}>
            All work
          </a>
        )}
      </div>
      {run && <OneRun id={run} />}
      <Windows />
      <Loaded of={spent} rows={6}>{(data) => <Lines answer={data} />}</Loaded>
      {!run && <Rest />}
    </div>
  );
}

function Lines({ answer }: { answer: SpendAnswer }) {
  const { total, day, spending } = answer;
  const most = Math.max(0.000001, ...spending.map((line) => line.usd));
  const hasBudget = spending.some((line) => line.budget?.usd || line.budget?.tokens);
  return (
    <>
      <p class="spend-total">
        <strong class="numbers">{dollars(total.usd ?? 0)}</strong> <span class="faint">{tokens(total.tokens ?? 0)} tokens</span>
        {day && (
          <span>
            {" "}
            · today {dollars(day.spent.usd)}
            {day.budget.usd != null && ` of ${dollars(day.budget.usd)}`}
          </span>
        )}
      </p>
      {spending.length === 0 ? (
        <Empty title="Nothing was reported">
          <p>What agents of runs cost appears here as their streams report it.</p>
        </Empty>
      ) : (
        <Table
          label="What was spent"
          columns={[
            { key: "name", name: answer.by[0]!.toUpperCase() + answer.by.slice(1) },
            { key: "usd", name: "Cost", isNumber: true },
            ...(hasBudget ? [{ key: "budget", name: "Budget", isNumber: true }] : []),
            { key: "bar", name: "Share", className: "spend-share" },
            { key: "tokens", name: "Tokens", isNumber: true },
            { key: "source", name: "Known from" },
          ]}
          rows={spending.map((line, index) => {
            const id = line[answer.by] as string | null;
            return {
              id: id ?? `none-${index}`,
              href: addressOf(answer.by, id),
              cells: {
                name: reveal(line.name ?? id ?? "not known"),
                usd: <Cost line={line} />,
                budget: <Budget line={line} />,
                bar: <span class="spend-bar" role="img" aria-label={`${Math.round((100 * line.usd) / most)} % of the highest`} style={{ width: `${((100 * line.usd) / most).toFixed(1)}%` }} />,
                tokens: tokens(line.tokens),
                source: line.sources.map((source) => SOURCES[source] ?? source).join(", "),
              },
            };
          })}
        />
      )}
    </>
  );
}

/** Tokens whose price nobody knows cost an unknown amount, not nothing. */
function Cost({ line }: { line: SpendLine }) {
  if (!line.usd && line.tokens) return <span class="tone-warn" title="The price of these tokens is not known">not known</span>;
  return <>{dollars(line.usd)}</>;
}

function Budget({ line }: { line: SpendLine }) {
  const limit = line.budget?.usd;
  if (limit == null) return <>{line.budget?.tokens ? `${tokens(line.budget.tokens)} tokens` : ""}</>;
  const isOver = line.usd >= limit;
  return <span class={isOver ? "tone-bad" : undefined}>{isOver ? `${dollars(limit)}, used up` : dollars(limit)}</span>;
}

function addressOf(by: string, id: string | null): string | undefined {
  if (!id) return undefined;
  if (by === "plan") return runAddress(id);
  if (by === "task") return taskAddress(id);
  return undefined;
}

/** Usage limits that agents wait at, with when they end. */
function Windows() {
  const limits = useResource<{ windows: VendorWindow[] }>("/runner/limits", anyOf("attempt", "run"), LOOK_AGAIN);
  const windows = limits.data?.windows ?? [];
  if (windows.length === 0) return null;
  return (
    <Section title="Limits of vendors" count={windows.length}>
      <ul class="plain">
        {windows.map((each) => {
          const end = parseTime(each.ends_at ?? each.next_try_at);
          return (
            <li>
              <strong>{each.profile}</strong>
              {each.scope && <span class="faint"> {each.scope.replaceAll("_", " ")}</span>} on {each.host}: {each.waiting} {each.waiting === 1 ? "agent waits" : "agents wait"},{" "}
              {each.ends_at ? "it ends" : "when it ends is not known; the next try is"} {end !== null && end > now.value ? `in ${duration(end - now.value)}` : "now"}
              {end !== null && <span class="faint"> ({new Date(end).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })})</span>}
              {each.reason && <span class="faint"> {reveal(each.reason)}</span>}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

/** One run: what it cost of what it may, and what its rest may cost. */
function OneRun({ id }: { id: string }) {
  const work = useResource<WorkNow>(`/runs/${encodeURIComponent(id)}/now?limit=1`, (event) => event.workflow_id === id);
  const head = work.data?.run;
  if (!work.data) return null;
  return (
    <Section title="This run">
      <p>
        <a href={runAddress(id)}>Open the run</a>
        {head && <> · {dollars(head.usd ?? 0)}{head.max_usd != null && ` of ${dollars(head.max_usd)}`} · {tokens(head.tokens)} tokens{head.models.length > 0 && ` · ${head.models.join(", ")}`}</>}
      </p>
      <ForecastLine work={work.data} />
    </Section>
  );
}

function ForecastLine({ work }: { work: WorkNow }) {
  if (!work.forecast) return <p class="faint">Nothing is left of it that agents of a run would do.</p>;
  return (
    <p>
      {describeForecast(work.forecast)}. <span class="faint">{[work.forecast.basis, work.forecast.unknown].filter(Boolean).join(" ")}</span>
    </p>
  );
}

/** What the runs that go on may still cost. */
function Rest() {
  const runs = useResource<RunsAnswer>("/runs?kind=plan&status=in_progress&limit=10", anyOf("plan", "run"));
  const open = runs.data?.runs ?? [];
  if (open.length === 0) return null;
  return (
    <Section title="What the rest may cost" count={open.length}>
      <ul class="plain">
        {open.map((run) => (
          <RestLine key={run.id} id={run.id} name={run.name} at={run.started_at} />
        ))}
      </ul>
    </Section>
  );
}

function RestLine({ id, name, at }: { id: string; name: string; at?: string | null }) {
  const work = useResource<WorkNow>(`/runs/${encodeURIComponent(id)}/now?limit=1`, (event) => event.workflow_id === id && !event.type.endsWith(":progress"));
  return (
    <li>
      <a href={`/spend?run=${encodeURIComponent(id)}`}>{reveal(name)}</a> <span class="faint">since <Ago at={at} /></span>
      {work.data && <ForecastLine work={work.data} />}
    </li>
  );
}
