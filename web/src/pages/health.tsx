/** The state of the server. */

import { useEffect } from "preact/hooks";
import { useResource } from "../data/resource";
import { connection, lag, eventBuffer } from "../data/live";
import { now } from "../clock";
import { Ago, bytes, Field, Fields, Loaded, Section, humanize } from "../ui/parts";

interface Status {
  version: string;
  started_at?: string;
  database?: { kind?: string; location?: string; size_bytes?: number | null; schema?: string | number | null };
  processes?: Record<string, unknown>[];
  events?: { last_seq?: number; oldest_seq?: number | null; kept_days?: number; lag_ms?: number };
  counts?: Record<string, number>;
  snapshots?: Record<string, unknown>;
  [more: string]: unknown;
}

const KNOWN_FIELDS = new Set(["version", "started_at", "database", "processes", "events", "counts"]);

export default function Health() {
  const status = useResource<Status>("/status", null);
  // No event covers this, so reload it every 15 seconds.
  const quarter = Math.floor(now.value / 15_000);
  useEffect(() => status.reload(), [quarter]);
  return (
    <div class="page">
      <h1>Health</h1>
      <Loaded of={status}>
        {(data) => (
          <>
            <Section title="Server" actions={<button type="button" class="button tiny" onClick={status.reload}>Refresh</button>}>
              <Fields>
                <Field name="Version">{data.version}</Field>
                {data.started_at && (
                  <Field name="Started">
                    <Ago at={data.started_at} />
                  </Field>
                )}
                <Field name="This page">{connection.value === "live" ? "live" : connection.value}</Field>
              </Fields>
            </Section>
            <Section title="Database">
              <Fields>
                <Field name="Kind">{data.database?.kind ?? "–"}</Field>
                <Field name="Location">
                  <code>{data.database?.location ?? "–"}</code>
                </Field>
                {data.database?.size_bytes != null && <Field name="Size">{bytes(data.database.size_bytes)}</Field>}
                {data.database?.schema != null && <Field name="Schema">{String(data.database.schema)}</Field>}
              </Fields>
            </Section>
            <Section title="Events">
              <Fields>
                <Field name="Last">{(data.events?.last_seq ?? 0).toLocaleString()}</Field>
                <Field name="Received here">{eventBuffer.last.toLocaleString()}</Field>
                <Field name="Behind">{Math.max(0, (data.events?.last_seq ?? 0) - eventBuffer.last).toLocaleString()}</Field>
                <Field name="Delivery time">{lag.value === null ? "–" : `${lag.value.toLocaleString()} ms`}</Field>
                {data.events?.oldest_seq != null && <Field name="Oldest stored">{data.events.oldest_seq.toLocaleString()}</Field>}
                {data.events?.kept_days != null && <Field name="Retention">{data.events.kept_days} days</Field>}
              </Fields>
            </Section>
            {data.processes && data.processes.length > 0 && (
              <Section title="Processes" count={data.processes.length}>
                <Facts rows={data.processes} />
              </Section>
            )}
            {data.counts && (
              <Section title="Rows">
                <Fields>
                  {Object.entries(data.counts).map(([name, n]) => (
                    <Field name={humanize(name)}>{Number(n).toLocaleString()}</Field>
                  ))}
                </Fields>
              </Section>
            )}
            {Object.entries(data)
              .filter(([name, value]) => !KNOWN_FIELDS.has(name) && value && typeof value === "object")
              .map(([name, value]) => (
                <Section title={humanize(name[0]!.toUpperCase() + name.slice(1))}>
                  <Facts rows={Array.isArray(value) ? (value as Record<string, unknown>[]) : [value as Record<string, unknown>]} />
                </Section>
              ))}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Facts({ rows }: { rows: Record<string, unknown>[] }) {
  return (
    <ul class="cards">
      {rows.slice(0, 50).map((row) => (
        <li class="card">
          <Fields>
            {Object.entries(row).map(([name, value]) => (
              <Field name={humanize(name)}>{/_at$|^since$/.test(name) ? <Ago at={value} /> : <span>{typeof value === "object" ? JSON.stringify(value) : String(value)}</span>}</Field>
            ))}
          </Fields>
        </li>
      ))}
    </ul>
  );
}
