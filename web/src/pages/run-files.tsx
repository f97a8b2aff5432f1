/** The files a run changed, with the tasks that changed them; a click shows the diff. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { read } from "../data/api";
import { useResource } from "../data/resource";
import type { ChangedFile, FilesAnswer } from "../data/shapes";
import { go, query, replace, withQuery } from "../router";
import { TaskDiffs } from "../ui/diff";
import { Empty, Loaded, formatCount, humanize } from "../ui/parts";
import { Rows } from "../ui/rows";
import { pathRows } from "../view/paths";
import { useQueryText } from "./runs";

const MOST_PAGES = 20;

export function FilesTab({ run }: { run: string }) {
  const address = `/runs/${encodeURIComponent(run)}/files`;
  const first = useResource<FilesAnswer>(`${address}?limit=500`, (event) => event.workflow_id === run && ["task:updated", "plan_task:updated"].includes(event.type));
  const [more, setMore] = useState<ChangedFile[]>([]);
  // The tree needs all files, so load the remaining pages.
  useEffect(() => {
    setMore([]);
    const control = new AbortController();
    void (async () => {
      let cursor = first.data?.cursor;
      for (let page = 0; cursor && page < MOST_PAGES; page++) {
        try {
          const { data } = await read<FilesAnswer>(`${address}?limit=500&cursor=${encodeURIComponent(cursor)}`, control.signal);
          setMore((old) => [...old, ...data.files]);
          cursor = data.cursor;
        } catch {
          return;
        }
      }
    })();
    return () => control.abort();
  }, [first.data]);
  return (
    <Loaded of={first}>
      {(data) => (data.files.length === 0 ? <Empty title="No files changed"><p>Files appear when a task in a repository ends.</p></Empty> : <Tree files={[...data.files, ...more]} total={data.total} />)}
    </Loaded>
  );
}

function Tree({ files, total }: { files: ChangedFile[]; total: number }) {
  const [typed, setTyped] = useQueryText("q");
  const text = (query.value.get("q") ?? "").toLowerCase();
  const isShared = query.value.get("shared") === "1";
  const folded = useMemo(() => new Set((query.value.get("fold") ?? "").split("|").filter(Boolean)), [query.value.get("fold")]);
  const kept = files.filter((file) => (!text || file.path.toLowerCase().includes(text)) && (!isShared || shared(file)));
  const rows = useMemo(() => pathRows(kept, folded), [files, text, isShared, folded]);
  const chosen = query.value.get("file");
  const file = chosen ? files.find((each) => each.path === chosen) : undefined;
  const fold = (key: string, isOpen: boolean) => {
    const next = new Set(folded);
    if (isOpen) next.delete(key);
    else next.add(key);
    replace(withQuery({ fold: [...next].join("|") }));
  };
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Files">
        <input type="search" data-search placeholder="Filter paths" aria-label="Filter paths" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="button" class="button" aria-pressed={isShared} onClick={() => go(withQuery({ shared: isShared ? null : 1 }))}>
          Shared only
        </button>
        <span class="faint numbers">{kept.length === total ? formatCount(total, "file") : `${kept.length} of ${formatCount(total, "file")}`}</span>
      </div>
      {rows.length === 0 ? (
        <Empty title="No matching paths" />
      ) : (
        <Rows
          items={rows}
          label="Changed files"
          rowHeight={30}
          isTree
          columns={3}
          className={file ? "files is-short" : "files"}
          selected={chosen}
          onSelect={(row) => (row.kind === "file" ? go(withQuery({ file: row.key === chosen ? null : row.key })) : fold(row.key, !row.isOpen))}
          onFold={(row, isOpen) => fold(row.key, isOpen)}
        >
          {(row) => (
            <>
              <div role="gridcell" class="file-name" style={{ paddingLeft: `${(row.level - 1) * 16 + 6}px` }}>
                <span class={row.kind === "file" ? "twist is-none" : row.isOpen ? "twist is-open" : "twist"} aria-hidden="true">
                  <svg viewBox="0 0 10 10"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
                </span>
                <code title={row.key}>{row.name}</code>
              </div>
              <div role="gridcell" class="file-lines">
                {row.kind === "file" ? (
                  <>
                    <span class={`kind status-${row.file.status}`}>{humanize(row.file.status)}</span>
                    {row.file.added != null && <span class="tone-good">+{row.file.added}</span>}
                    {row.file.removed != null && <span class="tone-bad">−{row.file.removed}</span>}
                  </>
                ) : (
                  <span class="faint">{formatCount(row.files, "file")}</span>
                )}
              </div>
              <div role="gridcell" class="file-owners">
                {row.kind === "file" && (
                  <>
                    {shared(row.file) && <span class="kind is-shared">shared</span>}
                    <span class="faint" title={row.file.tasks.map((task) => `${task.name} (${humanize(task.attribution)})`).join("\n")}>
                      {row.file.tasks.map((task) => task.name).join(", ")}
                    </span>
                  </>
                )}
              </div>
            </>
          )}
        </Rows>
      )}
      {file && <FileChanges key={file.path} file={file} />}
    </>
  );
}

const shared = (file: ChangedFile): boolean => file.tasks.length > 1 || file.tasks.some((task) => task.attribution === "shared");

function FileChanges({ file }: { file: ChangedFile }) {
  const asked = query.value.get("owner");
  const owner = file.tasks.find((task) => task.id === asked) ?? file.tasks[0];
  if (!owner) return null;
  return (
    <section class="event" aria-label={`Changes in ${file.path}`}>
      <div class="section-head">
        <h2>
          <code>{file.path}</code>
        </h2>
        <div class="section-actions">
          {file.tasks.length > 1 && (
            <label class="choice">
              <span class="unseen">By task</span>
              <select value={owner.id} onChange={(event) => go(withQuery({ owner: event.currentTarget.value }))}>
                {file.tasks.map((task) => (
                  <option value={task.id}>{task.name}</option>
                ))}
              </select>
            </label>
          )}
          <a class="button tiny" href={withQuery({ task: owner.id })}>
            {owner.name}
          </a>
          <button type="button" class="button tiny" onClick={() => go(withQuery({ file: null, owner: null }))}>
            Close
          </button>
        </div>
      </div>
      <TaskDiffs key={owner.id} task={owner.id} only={file.path} />
    </section>
  );
}
