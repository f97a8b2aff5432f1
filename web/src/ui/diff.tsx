/** Diffs, unified or side by side, with the changed words marked; large ones open on click. */

import { useMemo, useState } from "preact/hooks";
import { useResource } from "../data/resource";
import type { DiffAnswer, FileDiff } from "../data/shapes";
import { loadPreference, savePreference } from "../preferences";
import { query, replace, withQuery } from "../router";
import { getFoldReason, hunksOf, pairs, refineHunk, type DiffLine, type Hunk } from "../view/diff";
import { reveal } from "../view/reveal";
import { Empty, Loaded, formatCount, humanize } from "./parts";
import { WhyDialog } from "./why";

const MOST_LINES = 600;
/** How many files are open at first; the rest open on click, so that a large change does not stall the page. */
const OPEN_FILES = 5;

export function TaskDiffs({ task, only }: { task: string; only?: string }) {
  const list = useResource<DiffAnswer>(`/tasks/${encodeURIComponent(task)}/diff${only ? `?path=${encodeURIComponent(only)}` : ""}`);
  return (
    <Loaded of={list} rows={3}>
      {(data) =>
        data.files.length === 0 ? (
          <Empty title="No files changed" />
        ) : (
          <>
            <DiffTools />
            {data.warning && <p class="stale-note">{data.warning}</p>}
            {(data.files_count ?? 0) > data.files.length && (
              <p class="faint">
                Showing {data.files.length} of {formatCount(data.files_count!, "file")}.
              </p>
            )}
            {data.files.map((file, index) => (
              <File key={file.path} task={task} file={file} isOpen={Boolean(only) || index < OPEN_FILES} />
            ))}
          </>
        )
      }
    </Loaded>
  );
}

const isSplit = (): boolean => (query.value.get("diff") ?? loadPreference("diff", "unified")) === "split";
const ignoresSpace = (): boolean => query.value.get("space") === "ignore";

function DiffTools() {
  return (
    <div class="tools diff-tools" role="toolbar" aria-label="Changes">
      <button
        type="button"
        class="button"
        aria-pressed={isSplit()}
        onClick={() => {
          const next = isSplit() ? "unified" : "split";
          savePreference("diff", next);
          replace(withQuery({ diff: next }));
        }}
      >
        Side by side
      </button>
      <button type="button" class="button" aria-pressed={ignoresSpace()} onClick={() => replace(withQuery({ space: ignoresSpace() ? null : "ignore" }))}>
        Ignore whitespace
      </button>
    </div>
  );
}

function File({ task, file, isOpen: opensItself }: { task: string; file: FileDiff; isOpen: boolean }) {
  const because = getFoldReason(file);
  const [isOpen, setOpen] = useState(opensItself && because === null);
  return (
    <section class="file" aria-label={file.path}>
      <div class="file-head">
        <button type="button" class={isOpen ? "twist is-open" : "twist"} aria-expanded={isOpen} aria-label={`Changes in ${file.path}`} disabled={Boolean(file.is_binary)} onClick={() => setOpen(!isOpen)}>
          <svg viewBox="0 0 10 10" aria-hidden="true"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
        </button>
        <code class="file-path">
          {file.renamed_from && <span class="faint">{file.renamed_from} → </span>}
          {file.path}
        </code>
        <FileFacts file={file} />
      </div>
      {!isOpen && because && (
        <p class="faint file-note">
          {because}.{" "}
          {!file.is_binary && (
            <button type="button" class="button tiny" onClick={() => setOpen(true)}>
              Show anyway
            </button>
          )}
        </p>
      )}
      {isOpen && <FileBody task={task} file={file} />}
    </section>
  );
}

export function FileFacts({ file }: { file: FileDiff }) {
  return (
    <span class="file-facts">
      <span class={`kind status-${file.status}`}>{humanize(file.status)}</span>
      {file.added != null && <span class="tone-good">+{file.added.toLocaleString()}</span>}
      {file.removed != null && <span class="tone-bad">−{file.removed.toLocaleString()}</span>}
      {file.attribution && (
        <span class={file.attribution === "exclusive" ? "kind" : "kind is-shared"} title={file.shared_with?.length ? `also changed by: ${file.shared_with.join(", ")}` : undefined}>
          {humanize(file.attribution)}
        </span>
      )}
    </span>
  );
}

function FileBody({ task, file }: { task: string; file: FileDiff }) {
  const [most, setMost] = useState(200_000);
  const has = file.diff != null && most === 200_000;
  const answer = useResource<DiffAnswer>(has ? null : `/tasks/${encodeURIComponent(task)}/diff?path=${encodeURIComponent(file.path)}&max_bytes=${most}`);
  if (has) return <Hunks task={task} diff={file.diff!} path={file.path} />;
  return (
    <Loaded of={answer} rows={3}>
      {(data) => {
        const found = data.files.find((each) => each.path === file.path) ?? data.files[0];
        if (!found || found.diff == null) return <p class="faint file-note">{found?.is_binary ? "Binary file." : "No text to show."}</p>;
        return (
          <>
            <Hunks task={task} diff={found.diff} path={file.path} />
            {found.truncated && (
              <p class="faint file-note">
                The diff is truncated.{" "}
                {most < 1_000_000 && (
                  <button type="button" class="button tiny" onClick={() => setMost(1_000_000)}>
                    Show up to 1 MB
                  </button>
                )}
              </p>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

function Hunks({ task, diff, path }: { task: string; diff: string; path: string }) {
  const [asked, setAsked] = useState<AskedLine | null>(null);
  const space = ignoresSpace();
  const [most, setMost] = useState(MOST_LINES);
  const hunks = useMemo(() => hunksOf(diff), [diff]);
  const all = hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  const shown = useMemo(() => {
    let left = most;
    return hunks.flatMap((hunk) => {
      const lines = hunk.lines.slice(0, Math.max(0, left));
      left -= lines.length;
      return lines.length ? [refineHunk({ ...hunk, lines }, space)] : [];
    });
  }, [hunks, most, space]);
  if (hunks.length === 0) return <p class="faint file-note">{diff.trim() ? "Only the mode or name changed." : "No changes."}</p>;
  return (
    <>
      <div class="diff-scroll" tabIndex={0} role="region" aria-label={`Changed lines in ${path}`}>
        <table class={isSplit() ? "diff is-split" : "diff"} onClick={(event) => setAsked(findAsked(event.target) ?? asked)} onKeyDown={stepLine}>
          {isSplit() && (
            <colgroup>
              <col class="col-number" />
              <col />
              <col class="col-number" />
              <col />
            </colgroup>
          )}
          {shown.map((hunk, index) => (isSplit() ? <SplitHunk hunk={hunk} isFirst={index === 0} /> : <UnifiedHunk hunk={hunk} isFirst={index === 0} />))}
        </table>
      </div>
      {asked && (
        <WhyDialog
          title={`Why ${asked.side === "old" ? "removed line" : "line"} ${asked.line} of ${reveal(path)}?`}
          address={`/why?${new URLSearchParams({ task_id: task, path, line: String(asked.line), side: asked.side })}`}
          onClose={() => setAsked(null)}
        />
      )}
      {all > most && (
        <p class="file-note">
          <button type="button" class="button tiny" onClick={() => setMost(most + 4 * MOST_LINES)}>
            Show {(Math.min(all - most, 4 * MOST_LINES)).toLocaleString()} more lines
          </button>
        </p>
      )}
    </>
  );
}

const SIGNS = { same: " ", added: "+", removed: "−", note: "" };

function Text({ line }: { line: DiffLine }) {
  if (!line.parts) return <>{line.text}</>;
  return <>{line.parts.map((part) => (part.isChanged ? <mark>{part.text}</mark> : part.text))}</>;
}

interface AskedLine {
  side: "old" | "new";
  line: number;
}

/** The number of a line, as a button that tells why the line is there; one of a table is in the tab order. */
function WhyNumber({ side, line, isFirst }: { side: "old" | "new"; line: number | null; isFirst?: boolean }) {
  if (line === null) return null;
  return (
    <button type="button" class="why-line" data-side={side} data-line={line} aria-label={`Why line ${line}`} title="Why?" tabIndex={isFirst ? 0 : -1}>
      {line}
    </button>
  );
}

function findAsked(target: EventTarget | null): AskedLine | null {
  const button = (target as Element | null)?.closest<HTMLElement>(".why-line");
  return button ? { side: button.dataset.side as "old" | "new", line: Number(button.dataset.line) } : null;
}

/** Moves between the lines of a diff with the arrow keys. */
function stepLine(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step || !(event.target as Element).matches(".why-line")) return;
  const lines = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>(".why-line")];
  const next = lines[lines.indexOf(event.target as HTMLElement) + step];
  if (!next) return;
  event.preventDefault();
  (event.target as HTMLElement).tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function UnifiedHunk({ hunk, isFirst }: { hunk: Hunk; isFirst: boolean }) {
  return (
    <tbody>
      <tr class="hunk">
        <td colSpan={4}>… {hunk.heading}</td>
      </tr>
      {hunk.lines.map((line, index) => (
        <tr class={`is-${line.kind}`}>
          <td class="line-number">{line.kind === "removed" ? <WhyNumber side="old" line={line.old} isFirst={isFirst && index === 0} /> : (line.old ?? "")}</td>
          <td class="line-number"><WhyNumber side="new" line={line.new} isFirst={isFirst && index === 0} /></td>
          <td class="sign">{SIGNS[line.kind]}</td>
          <td class="line-text">
            <Text line={line} />
          </td>
        </tr>
      ))}
    </tbody>
  );
}

function SplitHunk({ hunk, isFirst }: { hunk: Hunk; isFirst: boolean }) {
  return (
    <tbody>
      <tr class="hunk">
        <td colSpan={4}>… {hunk.heading}</td>
      </tr>
      {pairs(hunk).map(({ left, right }, index) => (
        <tr>
          <td class={`line-number is-${left?.kind ?? "none"}`}>{left?.kind === "removed" ? <WhyNumber side="old" line={left.old} isFirst={isFirst && index === 0} /> : (left?.old ?? "")}</td>
          <td class={`line-text is-${left?.kind ?? "none"}`}>{left && <Text line={left} />}</td>
          <td class={`line-number is-${right?.kind ?? "none"}`}>{right && <WhyNumber side="new" line={right.new} isFirst={isFirst && index === 0 && left?.kind !== "removed"} />}</td>
          <td class={`line-text is-${right?.kind ?? "none"}`}>{right && <Text line={right} />}</td>
        </tr>
      ))}
    </tbody>
  );
}
