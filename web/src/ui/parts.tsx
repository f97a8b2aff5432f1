/** Small components that all pages use. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { absolute, ago, duration, now } from "../clock";
import { ApiError, NoResponse } from "../data/api";
import type { Resource } from "../data/resource";
import { parseTime } from "../data/tasks";
import { blocksOf, inline, type Inline } from "../view/markup";
import { announce } from "./announce";

/** A time as "4 min ago"; hover shows the exact time. */
export function Ago({ at }: { at: unknown }) {
  const ms = parseTime(at);
  if (ms === null) return <span class="faint">–</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={`${absolute(ms)} · ${new Date(ms).toISOString()}`}>
      {ago(ms, now.value)}
    </time>
  );
}

/** The duration between two times, or until now. */
export function Duration({ from, to }: { from: unknown; to?: unknown }) {
  const start = parseTime(from);
  if (start === null) return <span class="faint">–</span>;
  const end = parseTime(to);
  const iso = `${new Date(start).toISOString()} – ${end === null ? "now" : new Date(end).toISOString()}`;
  return (
    <time dateTime={`PT${Math.max(0, Math.round(((end ?? now.value) - start) / 1000))}S`} title={iso}>
      {duration((end ?? now.value) - start)}
    </time>
  );
}

export function Copy({ text, label, small }: { text: string | (() => string); label: string; small?: boolean }) {
  const [status, setStatus] = useState("");
  const show = (word: string) => {
    setStatus(word);
    setTimeout(() => setStatus(""), 1500);
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      show("Copied");
      announce("Copied.");
    } catch {
      // Browsers allow copying only on localhost and over HTTPS.
      show("Not allowed");
      announce("The browser did not allow copying.");
    }
  };
  return (
    <button type="button" class={small ? "button tiny" : "button"} onClick={copy}>
      {status || label}
    </button>
  );
}

export function Inlines({ parts }: { parts: Inline[] }) {
  return (
    <>
      {parts.map((part) =>
        part.kind === "code" ? (
          <code>{part.text}</code>
        ) : part.kind === "strong" ? (
          <strong>{part.text}</strong>
        ) : part.kind === "link" ? (
          <a href={part.href} target="_blank" rel="noreferrer noopener">
            {part.text}
          </a>
        ) : (
          part.text
        ),
      )}
    </>
  );
}

/** Text written by an agent, with basic Markdown; long text is cut until the user expands it. */
export function Prose({ text, longest = 4000 }: { text: string; longest?: number }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > longest && !isWhole;
  const blocks = blocksOf(isLong ? text.slice(0, longest) : text);
  return (
    <div class="prose">
      {blocks.map((block) =>
        block.kind === "code" ? (
          <pre tabIndex={0}>{block.text}</pre>
        ) : block.kind === "heading" ? (
          <p class="prose-heading">
            <Inlines parts={block.content} />
          </p>
        ) : block.kind === "list" ? (
          block.isNumbered ? (
            <ol>{block.items.map((item) => <li><Inlines parts={item} /></li>)}</ol>
          ) : (
            <ul>{block.items.map((item) => <li><Inlines parts={item} /></li>)}</ul>
          )
        ) : (
          <p>
            {block.lines.map((line, index) => (
              <>
                {index > 0 && <br />}
                <Inlines parts={line} />
              </>
            ))}
          </p>
        ),
      )}
      {isLong && (
        <button type="button" class="button tiny" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}

export const Line = ({ text }: { text: string }) => <Inlines parts={inline(text)} />;

export function Section({ title, count, children, actions, id }: { title: string; count?: number | null; children: ComponentChildren; actions?: ComponentChildren; id?: string }) {
  return (
    <section class="section" id={id}>
      <div class="section-head">
        <h2>
          {title}
          {count != null && <span class="count">{count.toLocaleString()}</span>}
        </h2>
        {actions && <div class="section-actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

export function Empty({ title, children, isPage }: { title: string; children?: ComponentChildren; isPage?: boolean }) {
  const Title = isPage ? "h1" : "p";
  return (
    <div class="empty">
      <svg viewBox="0 0 48 32" aria-hidden="true" focusable="false">
        <path d="M6 8h20M6 16h36M6 24h13" />
      </svg>
      <Title class="empty-title">{title}</Title>
      {children && <div class="empty-more">{children}</div>}
    </div>
  );
}

export function NoPage() {
  return (
    <Empty title="Page not found" isPage>
      <a class="button" href="/">
        Go to the inbox
      </a>
    </Empty>
  );
}

export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <div class={`bone w${(index * 7) % 4}`} />
      ))}
    </div>
  );
}

export function ErrorNotice({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const isGone = error instanceof NoResponse;
  const title = isGone ? "The server is not responding" : error instanceof ApiError && error.status === 404 ? "Not found" : "Loading failed";
  return (
    <div class="trouble" role="alert">
      <p class="empty-title">{title}</p>
      <p>{isGone ? "This loads as soon as the server responds." : error.message}</p>
      {error instanceof ApiError && error.status !== 404 && error.body.suggestion && <p class="faint">{error.body.suggestion}</p>}
      <div class="actions">
        {onRetry && (
          <button type="button" class="button" onClick={onRetry}>
            Try again
          </button>
        )}
        {error instanceof ApiError && error.status === 404 && (
          <a class="button" href="/runs">
            All runs
          </a>
        )}
      </div>
    </div>
  );
}

/** Renders a resource: a skeleton while it loads, its error, or its data. */
export function Loaded<T>({ of, children, rows }: { of: Resource<T>; children: (data: T) => ComponentChildren; rows?: number }) {
  if (of.data !== null) {
    return (
      <>
        {of.error && !(of.error instanceof NoResponse) && <p class="stale-note">Out of date: {of.error.message}</p>}
        {children(of.data)}
      </>
    );
  }
  if (of.error) return <ErrorNotice error={of.error} onRetry={of.reload} />;
  return <Skeleton rows={rows} />;
}

export function Bar({ done, failed = 0, running = 0, total, label }: { done: number; failed?: number; running?: number; total: number; label: string }) {
  const share = (n: number) => `${total ? (100 * n) / total : 0}%`;
  return (
    <span class="bar" role="img" aria-label={label} title={label}>
      <span class="bar-good" style={{ width: share(done) }} />
      <span class="bar-bad" style={{ width: share(failed) }} />
      <span class="bar-run" style={{ width: share(running) }} />
    </span>
  );
}

export function Fields({ children }: { children: ComponentChildren }) {
  return <dl class="fields">{children}</dl>;
}

export function Field({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export const humanize = (text: string): string => text.replaceAll("_", " ");

export const formatCount = (n: number, one: string, more = `${one}s`): string => `${n.toLocaleString()} ${n === 1 ? one : more}`;

export function tokens(n: number): string {
  if (n < 1000) return String(n);
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)} k`;
  return `${(n / 1_000_000).toFixed(1)} M`;
}

/** Money with cents; amounts below a cent keep their digits. */
export const dollars = (amount: number): string => `$${amount > 0 && amount < 0.01 ? amount.toFixed(6).replace(/0+$/, "") : amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MiB`;
  return `${(n / 1024 ** 3).toFixed(1)} GiB`;
}
