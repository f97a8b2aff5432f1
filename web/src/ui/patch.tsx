/** A patch of several files as text in color: what was changed first in numbers, then line by line. */

import { useMemo, useState } from "preact/hooks";
import { hunksOf, refineHunk, type DiffLine } from "../view/diff";
import { splitPatch, type PatchFile } from "../view/patch";
import { reveal } from "../view/reveal";

const OPEN_LINES = 400;
const MOST_LINES = 3000;
const SIGNS = { same: " ", added: "+", removed: "−", note: "" };

export function Patch({ text }: { text: string }) {
  const files = useMemo(() => splitPatch(text), [text]);
  let left = OPEN_LINES;
  return (
    <>
      {files.map((file) => {
        const lines = file.added + file.removed;
        const isOpen = left > 0 && lines <= OPEN_LINES;
        left -= lines;
        return <PatchedFile key={file.path} file={file} opensItself={isOpen} />;
      })}
    </>
  );
}

function PatchedFile({ file, opensItself }: { file: PatchFile; opensItself: boolean }) {
  const [isOpen, setOpen] = useState(opensItself);
  const path = reveal(file.path);
  return (
    <section class="file" aria-label={path}>
      <div class="file-head">
        <button type="button" class={isOpen ? "twist is-open" : "twist"} aria-expanded={isOpen} aria-label={`Changes in ${path}`} onClick={() => setOpen(!isOpen)}>
          <svg viewBox="0 0 10 10" aria-hidden="true"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
        </button>
        <code class="file-path">{path}</code>
        <span class="file-facts">
          <span class="tone-good">+{file.added}</span> <span class="tone-bad">−{file.removed}</span>
        </span>
      </div>
      {isOpen && <Lines file={file} />}
    </section>
  );
}

function Lines({ file }: { file: PatchFile }) {
  const hunks = useMemo(() => {
    let left = MOST_LINES;
    return hunksOf(file.text).flatMap((hunk) => {
      const lines = hunk.lines.slice(0, Math.max(0, left));
      left -= lines.length;
      return lines.length ? [refineHunk({ ...hunk, lines }, false)] : [];
    });
  }, [file.text]);
  if (hunks.length === 0) return <p class="faint file-note">Only its mode or name changed, or it is binary.</p>;
  return (
    <div class="diff-scroll" tabIndex={0} role="region" aria-label={`Changed lines in ${reveal(file.path)}`}>
      <table class="diff">
        {hunks.map((hunk) => (
          <tbody>
            <tr class="hunk">
              <td colSpan={4}>… {reveal(hunk.heading)}</td>
            </tr>
            {hunk.lines.map((line) => (
              <tr class={`is-${line.kind}`}>
                <td class="line-number">{line.old ?? ""}</td>
                <td class="line-number">{line.new ?? ""}</td>
                <td class="sign">{SIGNS[line.kind]}</td>
                <td class="line-text"><Text line={line} /></td>
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function Text({ line }: { line: DiffLine }) {
  if (!line.parts) return <>{reveal(line.text)}</>;
  return <>{line.parts.map((part) => (part.isChanged ? <mark>{reveal(part.text)}</mark> : reveal(part.text)))}</>;
}
