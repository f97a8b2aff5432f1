/** The diff of one file for a reviewer: syntax colour, marked words, and comments at their lines. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { callTool } from "../data/api";
import { useDraft } from "../data/drafts";
import type { Comment, ReviewFile, SentBack } from "../data/shapes-review";
import { reveal } from "../view/reveal";
import { hunksOf, refineHunk, type DiffLine } from "../view/diff";
import { highlightLines, mergeSpans, type Highlight, type Token } from "../view/highlight";
import { describeSent, keyOf, placeComments, placeOf } from "../view/review";
import { showResult } from "../ui/result";
import { CommentCard } from "./review-comments";

/** A line that a person comments on. */
export interface CommentPlace {
  path: string;
  side: "old" | "new";
  line: number;
  text: string;
}

interface Props {
  task: string;
  name: string;
  file: ReviewFile;
  /** The part of the patch about this file; null: it is on a page that was not loaded yet. */
  diff: string | null;
  comments: readonly Comment[];
  canComment: boolean;
  /** The line whose box is open, if it is in this file. */
  asked: CommentPlace | null;
  onAsk: (place: CommentPlace | null) => void;
  onSent: () => void;
}

const MOST_LINES = 800;
const SIGNS = { same: " ", added: "+", removed: "−", note: "" };

export function ReviewFileDiff({ task, name, file, diff, comments, canComment, asked, onAsk, onSent }: Props) {
  const [isOpen, setOpen] = useState(true);
  const [most, setMost] = useState(MOST_LINES);
  const hunks = useMemo(() => (diff === null ? [] : hunksOf(diff)), [diff]);
  const shown = useMemo(() => {
    let left = most;
    return hunks.flatMap((hunk) => {
      const lines = hunk.lines.slice(0, Math.max(0, left));
      left -= lines.length;
      return lines.length ? [refineHunk({ ...hunk, lines }, false)] : [];
    });
  }, [hunks, most]);
  const highlight = useHighlight(file.path, diff !== null && isOpen);
  const placed = useMemo(() => placeComments(comments, hunks), [comments, hunks]);
  const all = hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
  const first = useMemo(() => shown.flatMap((hunk) => hunk.lines).find((line) => line.kind === "added" || line.kind === "removed"), [shown]);
  return (
    <section class="file review-file" aria-label={file.path} data-file={file.path} tabIndex={-1}>
      <div class="file-head">
        <button type="button" class={isOpen ? "twist is-open" : "twist"} aria-expanded={isOpen} aria-label={`Changes in ${file.path}`} onClick={() => setOpen(!isOpen)}>
          <svg viewBox="0 0 10 10" aria-hidden="true"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
        </button>
        <code class="file-path">{reveal(file.path)}</code>
        <span class="file-facts">
          <span class={`kind status-${file.status}`}>{file.status}</span>
          {file.added != null && <span class="tone-good">+{file.added.toLocaleString()}</span>}
          {file.removed != null && <span class="tone-bad">−{file.removed.toLocaleString()}</span>}
        </span>
      </div>
      {isOpen && placed.gone.length > 0 && (
        <div class="review-gone">
          <p class="faint">On lines that are not in this diff any more:</p>
          {placed.gone.map((each) => <CommentCard comment={each} quotes onClosed={onSent} />)}
        </div>
      )}
      {isOpen && diff === null && <p class="faint file-note">Not loaded yet.</p>}
      {isOpen && diff !== null && hunks.length === 0 && <p class="faint file-note">{file.is_binary ? "Binary file." : "Only the mode or name changed."}</p>}
      {isOpen && hunks.length > 0 && (
        <div class="diff-scroll review-scroll" tabIndex={0} role="region" aria-label={`Changed lines in ${file.path}`}>
          <table class="diff review-diff" onKeyDown={stepLine}>
            {shown.map((hunk) => (
              <HunkRows
                lines={hunk.lines}
                heading={hunk.heading}
                first={first}
                highlight={highlight}
                placed={placed.at}
                canComment={canComment}
                asked={asked}
                onAsk={(line, place) => onAsk({ path: file.path, ...place, text: line.text })}
                box={(line) => asked && <CommentBox task={task} name={name} place={{ ...asked, text: line.text }} onClose={() => onAsk(null)} onSent={onSent} />}
                onClosed={onSent}
              />
            ))}
          </table>
        </div>
      )}
      {all > most && isOpen && (
        <p class="file-note">
          <button type="button" class="button tiny" onClick={() => setMost(most * 5)}>Show more of {all.toLocaleString()} lines</button>
        </p>
      )}
    </section>
  );
}

interface HunkProps {
  lines: DiffLine[];
  heading: string;
  first: DiffLine | undefined;
  highlight: Highlight | null;
  placed: Map<string, Comment[]>;
  canComment: boolean;
  asked: CommentPlace | null;
  onAsk: (line: DiffLine, place: { side: "old" | "new"; line: number }) => void;
  box: (line: DiffLine) => preact.ComponentChildren;
  onClosed: () => void;
}

function HunkRows({ lines, heading, first, highlight, placed, canComment, asked, onAsk, box, onClosed }: HunkProps) {
  const tokens = useMemo(() => (highlight ? highlightLines(lines, highlight) : null), [lines, highlight]);
  return (
    <tbody>
      <tr class="hunk"><td colSpan={4}>… {reveal(heading)}</td></tr>
      {lines.map((line) => {
        const place = placeOf(line);
        const isAsked = place !== null && asked?.side === place.side && asked.line === place.line;
        const own = place === null ? [] : [...(placed.get(keyOf(place.side, place.line)) ?? []), ...(line.kind === "same" && line.old !== null ? (placed.get(keyOf("old", line.old)) ?? []) : [])];
        return (
          <>
            <tr class={`is-${line.kind}${isAsked ? " is-asked" : ""}`}>
              <td class="line-number">{line.old ?? ""}</td>
              <td class="line-number">
                {place && canComment ? (
                  <button type="button" class="review-line" data-side={place.side} data-line={place.line} data-text={line.text} tabIndex={line === first ? 0 : -1} aria-label={`Comment on ${place.side === "old" ? "removed line" : "line"} ${place.line}`} title="Comment" onClick={() => onAsk(line, place)}>
                    {line.new ?? "−"}
                  </button>
                ) : (
                  (line.new ?? "")
                )}
              </td>
              <td class="sign">{SIGNS[line.kind]}</td>
              <td class="line-text"><Text line={line} tokens={tokens?.get(line)} /></td>
            </tr>
            {own.map((comment) => <tr class="review-said"><td colSpan={4}><CommentCard comment={comment} onClosed={onClosed} /></td></tr>)}
            {isAsked && <tr class="review-said"><td colSpan={4}>{box(line)}</td></tr>}
          </>
        );
      })}
    </tbody>
  );
}

function Text({ line, tokens }: { line: DiffLine; tokens?: Token[] }) {
  if (!tokens && !line.parts) return <>{reveal(line.text)}</>;
  return (
    <>
      {mergeSpans(tokens ?? [{ text: line.text, kind: "" }], line.parts).map(({ text, kind, isChanged }) => {
        const shown = kind ? <span class={`hl-${kind.split(/[.\s]/, 1)[0]}`}>{reveal(text)}</span> : reveal(text);
        return isChanged ? <mark>{shown}</mark> : shown;
      })}
    </>
  );
}

/** The highlighting of a file, as soon as its language is loaded; the lines are shown at once without it. */
function useHighlight(path: string, isWanted: boolean): Highlight | null {
  const [found, setFound] = useState<{ highlight: Highlight | null }>({ highlight: null });
  useEffect(() => {
    if (!isWanted) return;
    let isMine = true;
    import("../view/highlighter")
      .then(({ loadHighlight }) => loadHighlight(path))
      .then((highlight) => isMine && setFound({ highlight }), () => undefined); // Without colour it can be read, too.
    return () => void (isMine = false);
  }, [path, isWanted]);
  return found.highlight;
}

/** Writes a comment on one line; what was typed is kept until it is sent, whatever happens to the line. */
function CommentBox({ task, name, place, onClose, onSent }: { task: string; name: string; place: CommentPlace; onClose: () => void; onSent: () => void }) {
  const draft = useDraft(`comment:${task}:${place.path}:${place.side}:${place.line}`);
  const [key, setKey] = useState(() => crypto.randomUUID());
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const send = async (later: boolean) => {
    if (!draft.text.trim() || isBusy) return;
    setBusy(true);
    setError("");
    const given = { task_id: task, path: place.path, line: place.line, side: place.side, seen: place.text, text: draft.text, later };
    try {
      const sent = (await callTool("comment_on_task", given, `${key}:${later}`)) as SentBack;
      draft.clear();
      showResult({ text: describeSent(name, sent) });
      onClose();
      onSent();
    } catch (problem) {
      const body = (problem as { body?: { suggestion?: string } }).body;
      setError([(problem as Error).message, body?.suggestion].filter(Boolean).join(" "));
      setKey(crypto.randomUUID());
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="review-box"
      aria-label={`Comment on line ${place.line} of ${place.path}`}
      onSubmit={(event) => {
        event.preventDefault();
        void send(false);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void send(event.shiftKey);
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <label class="ask">
        <span>Comment on {place.side === "old" ? "removed line" : "line"} {place.line} of {reveal(place.path)}</span>
        <textarea rows={3} maxLength={1500} required value={draft.text} ref={(field) => void field?.focus()} onInput={(event) => draft.set(event.currentTarget.value)} />
      </label>
      {error && <p class="form-error" role="alert">{error} Your words are kept.</p>}
      <div class="askbox-foot">
        <button type="submit" class="button primary" disabled={isBusy}>{isBusy ? "Sending …" : "Send to the agent"} <kbd aria-hidden="true">Ctrl ↵</kbd></button>
        <button type="button" class="button" disabled={isBusy} onClick={() => void send(true)}>Keep for later <kbd aria-hidden="true">Ctrl ⇧ ↵</kbd></button>
        <button type="button" class="button" onClick={onClose}>Close</button>
        {draft.text && <span class="faint">Draft kept</span>}
      </div>
    </form>
  );
}

/** Moves between the lines of a diff with the arrow keys. */
function stepLine(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step || !(event.target as Element).matches(".review-line")) return;
  const lines = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>(".review-line")];
  const next = lines[lines.indexOf(event.target as HTMLElement) + step];
  if (!next) return;
  event.preventDefault();
  (event.target as HTMLElement).tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
