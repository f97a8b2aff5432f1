/** Any value that is to be approved, whole and as text: nothing in it is hidden, cut or rendered. */

import { isFileList, orderFields, parseFile, splitDiff, type ShownFile } from "../view/shown";
import { reveal } from "../view/reveal";
import { humanize } from "./parts";

export function Shown({ value }: { value: unknown }) {
  if (typeof value === "string") return value.includes("\n") || value.length > 200 ? <pre class="shown" tabIndex={0}>{reveal(value)}</pre> : <span>{reveal(value)}</span>;
  if (value === null || typeof value !== "object") return <code>{JSON.stringify(value)}</code>;
  if (Array.isArray(value)) return <ShownList values={value} />;
  return (
    <dl class="shown-fields">
      {orderFields(value as Record<string, unknown>).map(([name, each]) => (
        <div>
          <dt>{reveal(humanize(name))}</dt>
          <dd><Shown value={each} /></dd>
        </div>
      ))}
    </dl>
  );
}

function ShownList({ values }: { values: unknown[] }) {
  if (!values.length) return <span class="faint">none</span>;
  if (isFileList(values)) return <ul class="cards">{values.map((each) => <FileCard file={parseFile(each)!} />)}</ul>;
  return <ol class="shown-list">{values.map((each) => <li><Shown value={each} /></li>)}</ol>;
}

function FileCard({ file }: { file: ShownFile }) {
  const isShort = file.more.every(([, value]) => value === null || typeof value !== "object");
  return (
    <li class="card">
      <h3><code>{reveal(file.path)}</code></h3>
      {file.diff !== null && <ShownDiff text={file.diff} label={`Changes in ${file.path}`} />}
      {isShort ? (
        <dl class="fields shown-more">
          {file.more.map(([name, value]) => (
            <div class="field">
              <dt>{reveal(humanize(name))}</dt>
              <dd><Shown value={value} /></dd>
            </div>
          ))}
        </dl>
      ) : (
        <Shown value={Object.fromEntries(file.more)} />
      )}
    </li>
  );
}

/** A unified diff as it was given, with its lines coloured. */
export function ShownDiff({ text, label }: { text: string; label: string }) {
  return (
    <pre class="shown shown-diff" tabIndex={0} aria-label={reveal(label)} role="region">
      {splitDiff(text).map((line) => (
        <span class={`is-${line.kind}`}>{reveal(line.text)}{"\n"}</span>
      ))}
    </pre>
  );
}
