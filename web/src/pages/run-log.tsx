/** The log: every event in order. It follows new events until the user scrolls up or pauses. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { clockTime } from "../clock";
import { read } from "../data/api";
import { eventBuffer, listen } from "../data/live";
import type { Envelope, EventsAnswer } from "../data/shapes";
import { go, query, withQuery } from "../router";
import { Copy, Empty, formatCount, Skeleton, ErrorNotice } from "../ui/parts";
import { Rows } from "../ui/rows";
import { collectNames, nameAgents, tell } from "../view/log";
import { reveal } from "../view/reveal";
import { Choice, useQueryText } from "./runs";

const PAGE = 500;
/** The page holds at most this many events; older ones are loaded again when the user scrolls up. */
const MOST = 20_000;

/** The log of a run, or of everything. */
export function LogTab({ run }: { run?: string }) {
  const [names, setNames] = useState<Record<string, string>>({});
  const [events, setEvents] = useState<Envelope[] | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isPaused, setPaused] = useState(false);
  const [atEnd, setAtEnd] = useState(true);
  const [hasOlder, setOlder] = useState(false);
  const isReading = useRef(false);
  const held = useRef<Envelope[]>([]);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  const address = run ? `/runs/${encodeURIComponent(run)}/events` : "/log";
  const isMine = (event: Envelope): boolean => !run || event.workflow_id === run;
  const learn = (fresh: Record<string, string> | undefined) => setNames((old) => ({ ...old, ...fresh }));

  const first = async () => {
    try {
      const { data } = await read<EventsAnswer>(`${address}?limit=${PAGE}`);
      const list = [...data.events].sort((a, b) => a.seq - b.seq);
      const last = list[list.length - 1]?.seq ?? 0;
      const since = (eventBuffer.since(last) ?? []).filter((event) => isMine(event) && event.seq > last);
      learn(data.names);
      setEvents([...list, ...since]);
      setOlder(list.length >= PAGE || (list.length > 0 && (data.total ?? 0) > list.length));
      setError(null);
    } catch (problem) {
      setError(problem as Error);
    }
  };
  useEffect(() => {
    void first();
    return listen((fresh, isResync) => {
      if (isResync) return void first();
      const mine = fresh.filter(isMine);
      if (mine.length === 0) return;
      if (paused.current) held.current.push(...mine);
      else setEvents((old) => appendEvents(old, mine));
    });
  }, [run]);

  const older = async () => {
    const oldest = events?.[0]?.seq;
    if (!hasOlder || isReading.current || oldest === undefined) return;
    isReading.current = true;
    try {
      const { data } = await read<EventsAnswer>(`${address}?before=${oldest}&limit=${PAGE}`);
      const list = data.events.filter((event) => event.seq < oldest).sort((a, b) => a.seq - b.seq);
      setOlder(list.length >= PAGE);
      learn(data.names);
      setEvents((old) => [...list, ...(old ?? [])]);
    } finally {
      isReading.current = false;
    }
  };
  const resume = () => {
    const waiting = held.current;
    held.current = [];
    setEvents((old) => appendEvents(old, waiting));
    setPaused(false);
    setAtEnd(true);
  };

  const [typed, setTyped] = useQueryText("q");
  const text = (query.value.get("q") ?? "").toLowerCase();
  const type = query.value.get("type") ?? "";
  const agent = query.value.get("agent") ?? "";
  const types = useMemo(() => [...new Set((events ?? []).map((event) => event.type))].sort(), [events]);
  const named = useMemo(() => collectNames(events ?? [], names), [events, names]);
  const who = useMemo(() => nameAgents(events ?? [], named), [events, named]);
  const agents = useMemo(() => [...new Set(who.values())].sort(), [who]);
  const items = useMemo(
    () =>
      (events ?? [])
        .filter((event) => (!type || event.type === type) && (!agent || who.get(event.seq) === agent) && (!text || `${event.type} ${tell(event, who.get(event.seq), named)}`.toLowerCase().includes(text)))
        .map((event) => ({ key: String(event.seq), event })),
    [events, who, named, type, agent, text],
  );
  if (!events) return error ? <ErrorNotice error={error} onRetry={first} /> : <Skeleton rows={10} />;
  const chosen = query.value.get("event");
  const opened = chosen ? events.find((event) => String(event.seq) === chosen) : undefined;
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Log">
        <input type="search" data-search placeholder="Filter log" aria-label="Filter log" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <Choice name="type" label="Type" none="All types" options={types.map((each) => [each, each])} />
        <Choice name="agent" label="Agent" none="All agents" options={agents.map((each) => [each, each])} />
        <button type="button" class="button" aria-pressed={isPaused} onClick={() => (isPaused ? resume() : setPaused(true))}>
          {isPaused ? `Resume${held.current.length ? ` (${held.current.length} new)` : ""}` : "Pause"}
        </button>
        <Copy label="Copy all" text={() => items.map(({ event }) => JSON.stringify(event)).join("\n")} />
        <span class="faint numbers">{formatCount(items.length, "event")}</span>
      </div>
      {items.length === 0 ? (
        <Empty title={events.length ? "No matching events" : "No events yet"} />
      ) : (
        <Rows
          items={items}
          label="Events"
          rowHeight={26}
          columns={4}
          className="log"
          selected={chosen}
          follows={!isPaused && atEnd && !chosen}
          onScrolled={(isAtEnd, isAtStart) => {
            setAtEnd(isAtEnd);
            if (isAtStart) void older();
          }}
          onSelect={(item) => go(withQuery({ event: item.key === chosen ? null : item.key }))}
        >
          {({ event }) => (
            <>
              <span role="gridcell" class="log-seq">{event.seq}</span>
              <span role="gridcell" class="log-time" title={event.ts}>{clockTime(Date.parse(event.ts))}</span>
              <span role="gridcell" class={`log-type tone-${toneOf(event)}`}>{event.type}</span>
              <span role="gridcell" class="log-text">{reveal(tell(event, who.get(event.seq), named))}</span>
            </>
          )}
        </Rows>
      )}
      {opened && (
        <section class="event" aria-label={`Event ${opened.seq}`}>
          <div class="section-head">
            <h2>
              {opened.type} <span class="count">{opened.seq}</span>
            </h2>
            <div class="section-actions">
              <Copy small label="Copy" text={JSON.stringify(opened, null, 2)} />
              <button type="button" class="button tiny" onClick={() => go(withQuery({ event: null }))}>
                Close
              </button>
            </div>
          </div>
          <pre tabIndex={0}>{JSON.stringify(opened, null, 2)}</pre>
        </section>
      )}
    </>
  );
}

function appendEvents(old: Envelope[] | null, fresh: Envelope[]): Envelope[] {
  const last = old?.[old.length - 1]?.seq ?? 0;
  const all = [...(old ?? []), ...fresh.filter((event) => event.seq > last)];
  return all.length > MOST ? all.slice(-MOST) : all;
}

function toneOf(event: Envelope): string {
  if (event.type.includes("failed") || event.data.status === "failed") return "bad";
  if (event.type === "issue:created") return "warn";
  if (event.type.endsWith("resolved") || event.type.endsWith("passed") || ["success", "completed"].includes(String(event.data.status))) return "good";
  return "run";
}
