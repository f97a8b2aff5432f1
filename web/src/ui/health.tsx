/** The state of the server, in sentences. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { now } from "../clock";
import { connection, eventBuffer, lag } from "../data/live";
import { useResource } from "../data/resource";
import { Ago, bytes, Field, Fields, formatCount, humanize, Loaded } from "./parts";
import { State } from "./state";

interface Status {
  version: string;
  started_at: string;
  database: { kind: string; location: string; size_bytes?: number | null; schema?: string | number | null };
  processes?: { name: string; is_this?: boolean | null }[] | null;
  events: { last_seq: number; oldest_seq: number; kept_days: number };
  snapshots: { mode: string; last_ms?: number | null };
  counts: Record<string, number>;
}

const CONNECTION: Record<string, string> = {
  live: "This page is live: the server reads what it writes, and sends it here.",
  connecting: "This page is connecting.",
  gone: "This page is not live: the server does not respond.",
  failed: "This page is not live: the server can no longer read what it writes. Its log says why; deepwork doctor helps.",
  offline: "This page is not live: this computer is offline.",
};
/** An event should be here sooner than this, in milliseconds. */
const SLOW = 2000;

export function Health() {
  const status = useResource<Status>("/status", null);
  // No event covers this, so reload it every 15 seconds.
  const quarter = Math.floor(now.value / 15_000);
  useEffect(() => status.reload(), [quarter]);
  return (
    <Loaded of={status}>
      {(data) => {
        const behind = Math.max(0, data.events.last_seq - eventBuffer.last);
        const others = data.processes?.filter((each) => !each.is_this) ?? [];
        return (
          <>
            <ul class="health" aria-label="Health">
              <Fact isGood={connection.value === "live"}>{CONNECTION[connection.value]}</Fact>
              <Fact isGood>
                deepwork {data.version} was started here <Ago at={data.started_at} />.
              </Fact>
              <Fact isGood={behind < 100}>
                {behind === 0 ? "This page has every event." : `This page is ${formatCount(behind, "event")} behind.`}
                {lag.value !== null && ` The last one took ${lag.value.toLocaleString()} ms to get here.`}
              </Fact>
              {lag.value !== null && lag.value > SLOW && <Fact isGood={false}>Events arrive late: the server, or this computer, is busy, or their clocks differ.</Fact>}
              <Fact isGood>
                Everything is stored in {data.database.kind === "sqlite" ? "SQLite" : "PostgreSQL"} at <code>{data.database.location}</code>
                {data.database.size_bytes ? `, ${bytes(data.database.size_bytes)} now` : ""}. Events are kept for {data.events.kept_days} days.
              </Fact>
              <Fact isGood>
                {data.processes == null ? "Which other processes use the store is not known here." : others.length === 0 ? "No other process uses the store." : `${formatCount(others.length, "other process", "other processes")} ${others.length === 1 ? "uses" : "use"} the store: ${others.map((each) => each.name).join(", ")}.`}
              </Fact>
              <Fact isGood>{data.snapshots.mode === "none" ? "No snapshot of the working tree was needed yet." : `The last snapshot of the working tree (${humanize(data.snapshots.mode)}) took ${data.snapshots.last_ms ?? "?"} ms.`}</Fact>
            </ul>
            <details>
              <summary>Rows in the store</summary>
              <Fields>
                {Object.entries(data.counts).map(([name, n]) => <Field name={humanize(name)}>{Number(n).toLocaleString()}</Field>)}
                <Field name="Newest event">{data.events.last_seq.toLocaleString()}</Field>
                {data.database.schema != null && <Field name="Schema">{String(data.database.schema)}</Field>}
              </Fields>
            </details>
          </>
        );
      }}
    </Loaded>
  );
}

function Fact({ isGood, children }: { isGood: boolean; children: ComponentChildren }) {
  return (
    <li>
      <State status={isGood ? "passed" : "failed"} word={isGood ? "Good" : "Look"} isSmall />
      <p>{children}</p>
    </li>
  );
}
