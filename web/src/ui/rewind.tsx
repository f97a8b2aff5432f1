/** Rewinding a task: what would happen, the person's decision, its progress, and undoing it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { callTool } from "../data/api";
import { listen, me } from "../data/live";
import { useResource } from "../data/resource";
import type { Envelope, Rewind, RewindPreview } from "../data/shapes";
import { taskAddress } from "../router";
import { reveal } from "../view/reveal";
import { formatMoment, isUnfinished, mayUndo } from "../view/rewinds";
import { ActProof, FailureNote, useAct } from "./acts";
import { Dialog } from "./dialog";
import { Ago, ErrorNotice, formatCount, humanize, Section, Skeleton } from "./parts";
import { showResult } from "./result";
import { State, StateMark } from "./state";

const STAGES: [string, string][] = [
  ["planned", "Decided"],
  ["rescued", "Uncommitted work saved"],
  ["files", "Files are back"],
  ["state", "Tasks are back"],
  ["done", "Done"],
];

const isOf = (task: string) => (event: Envelope) => event.type === "rewind:updated" && event.data.task_id === task;

/** The button that opens the preview; only for people whose token may rewind. An open dialog stays when the task changes. */
export function RewindButton({ task, name, isOffered }: { task: string; name: string; isOffered: boolean }) {
  const [isOpen, setOpen] = useState(false);
  if (!me.value.actions?.includes("rewind_task")) return null;
  return (
    <>
      {isOffered && (
        <button type="button" class="button" onClick={() => setOpen(true)}>
          Rewind…
        </button>
      )}
      {isOpen && <RewindDialog task={task} name={name} onClose={() => setOpen(false)} />}
    </>
  );
}

function RewindDialog({ task, name, onClose }: { task: string; name: string; onClose: () => void }) {
  const [to, setTo] = useState("start");
  const [dependents, setDependents] = useState("ask");
  const { preview, error, isLoading, reload } = usePreview(task, to, dependents);
  const [done, setDone] = useState<Rewind | null>(null);
  const form = useRef<HTMLFormElement>(null);
  const act = useAct<Rewind>((answer) => {
    setDone(answer);
    showResult({ text: answer.stage === "done" ? `${name} was rewound.` : `The rewind was ${answer.stage}.` });
  });
  const stage = useStage(task, act.isBusy);
  const rewind = (event: Event) => {
    event.preventDefault();
    if (preview) void act.call("rewind_task", { task_id: task, to, dependents, digest: preview.digest }, form.current);
  };
  if (done) return <Dialog title={`Rewound: ${name}`} onClose={onClose} wide><Result rewind={done} onClose={onClose} /></Dialog>;
  return (
    <Dialog title={`Rewind: ${name}`} onClose={onClose} wide>
      <form ref={form} onSubmit={rewind}>
        {!preview && (error ? <ErrorNotice error={error} onRetry={reload} /> : <Skeleton rows={6} />)}
        {preview && (
          <>
            <TargetChoice preview={preview} to={to} onChange={setTo} />
            {error && <p class="form-error" role="alert">{error.message}</p>}
            <div class="preview" aria-busy={isLoading}>
              <PreviewParts preview={preview} />
              <DependentsChoice preview={preview} chosen={dependents} onChange={setDependents} />
              <NotUndone remarks={preview.cannot_undo} />
            </div>
            <ActProof failure={act.failure} />
            <FailureNote failure={act.failure} />
            {act.isBusy && <Progress stage={stage} />}
            <div class="dialog-foot">
              <span class="faint">{explain(preview)}</span>
              <span class="actions">
                {act.failure && <button type="button" class="button" onClick={() => { act.forget(); reload(); }}>Look again</button>}
                <button type="submit" class="button primary" disabled={act.isBusy || isLoading || !preview.possible}>
                  {act.isBusy ? "Rewinding …" : "Rewind"}
                </button>
              </span>
            </div>
          </>
        )}
      </form>
    </Dialog>
  );
}

function explain(preview: RewindPreview): string {
  if (preview.in_the_way_total) return "Not possible while files are in the way.";
  if (!preview.possible) return "First decide about the tasks that build on it.";
  return "You can undo it afterwards.";
}

/** The preview of a choice; the one before stays visible meanwhile. */
function usePreview(task: string, to: string, dependents: string) {
  const [preview, setPreview] = useState<RewindPreview | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(true);
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    setLoading(true);
    callTool("preview_rewind", { task_id: task, to, dependents }, crypto.randomUUID()).then(
      (answer) => isCurrent && (setPreview(answer as RewindPreview), setError(null), setLoading(false)),
      (problem: Error) => isCurrent && (setError(problem), setLoading(false)),
    );
    return () => {
      isCurrent = false;
    };
  }, [task, to, dependents, round]);
  return { preview, error, isLoading, reload: () => setRound(round + 1) };
}

/** The stage that a rewind of this task has reached since the call began. */
function useStage(task: string, isBusy: boolean): string {
  const [stage, setStage] = useState("");
  useEffect(() => {
    if (!isBusy) return;
    setStage("");
    return listen((events) => {
      const last = events.filter(isOf(task)).pop();
      if (last) setStage(String(last.data.stage));
    });
  }, [task, isBusy]);
  return stage;
}

function TargetChoice({ preview, to, onChange }: { preview: RewindPreview; to: string; onChange: (to: string) => void }) {
  return (
    <p>
      <label>
        The task goes back to{" "}
        <select value={to} onChange={(event) => onChange(event.currentTarget.value)}>
          {preview.targets.map((each) => (
            <option value={each}>{formatMoment(each)}</option>
          ))}
        </select>
      </label>{" "}
      and is pending again. {preview.held_by && <>The claim of <code>{preview.held_by}</code> ends.</>}
    </p>
  );
}

function PreviewParts({ preview }: { preview: RewindPreview }) {
  const hasNothing = !preview.files_total && !preview.in_the_way_total && !preview.branches.length && !preview.reverts.length;
  return (
    <>
      <Part title="Files in the way" count={preview.in_the_way_total} tone="bad" note="They cannot go back without a loss. Commit them or move them elsewhere, or rewind the tasks that changed them since.">
        {preview.in_the_way.map((each) => <li><code>{reveal(each.path)}</code> <span class="faint">{reveal(each.reason)}</span></li>)}
      </Part>
      <Part title="Files that go back" count={preview.files_total}>
        {preview.files.map((each) => <li><span class={`kind status-${each.what}`}>{each.what}</span> <code title={each.tree}>{reveal(each.path)}</code></li>)}
      </Part>
      <Part title="Branches" count={preview.branches.length}>
        {preview.branches.map((each) => <li><code>{reveal(each.branch)}</code> {each.then ? <>goes back from <code>{each.now}</code> to <code>{each.then}</code></> : <>is set aside at <code>{each.now}</code>; the task begins with a new one</>}</li>)}
      </Part>
      <Part title="Landed commits that a new commit reverts" count={preview.reverts.length}>
        {preview.reverts.map((each) => <li><code>{each.commit.slice(0, 12)}</code> on <code>{reveal(each.branch)}</code> {reveal(each.task)}{each.merge_into && <> — <code>{reveal(each.merge_into)}</code> is checked out and stays: you merge it</>}</li>)}
      </Part>
      {hasNothing && <p class="faint">No file, branch or landed commit changes: only the state of the task goes back.</p>}
    </>
  );
}

function Part({ title, count, tone, note, children }: { title: string; count: number; tone?: string; note?: string; children: ComponentChildren[] }) {
  if (!count) return null;
  const hidden = count - children.length;
  return (
    <div class="preview-part">
      <h3 class={tone ? `tone-${tone}` : undefined}>{title}<span class="count">{count.toLocaleString()}</span></h3>
      {note && <p class="faint">{note}</p>}
      <ul class="plain preview-list" tabIndex={0} aria-label={title}>
        {children}
        {hidden > 0 && <li class="faint">and {formatCount(hidden, "more", "more")}</li>}
      </ul>
    </div>
  );
}

function DependentsChoice({ preview, chosen, onChange }: { preview: RewindPreview; chosen: string; onChange: (choice: string) => void }) {
  const begun = preview.begun_dependents;
  if (!begun.length) return null;
  const choices: [string, string, string][] = [
    ["reset", "Begin again", "They go back to their start, too; their trees are kept beside."],
    ["keep", "Keep", "They stay as they are, marked as built on stale work."],
  ];
  return (
    <fieldset class="preview-part">
      <legend>{formatCount(begun.length, "task")} that {begun.length === 1 ? "builds" : "build"} on it and {begun.length === 1 ? "has" : "have"} begun</legend>
      <ul class="plain">
        {begun.map((each) => <li><StateMark status={each.status} /> <a href={taskAddress(each.id)} target="_blank" rel="noopener">{reveal(each.name)}</a></li>)}
      </ul>
      {choices.map(([value, label, meaning]) => (
        <label class="check">
          <input type="radio" name="dependents" value={value} required checked={chosen === value} onChange={() => onChange(value)} />
          <span>{label} <span class="faint">{meaning}</span></span>
        </label>
      ))}
    </fieldset>
  );
}

function NotUndone({ remarks }: { remarks: string[] }) {
  if (!remarks.length) return null;
  return (
    <div class="preview-part">
      <h3>Not undone</h3>
      <ul class="minus">{remarks.map((each) => <li>{reveal(each)}</li>)}</ul>
    </div>
  );
}

function Progress({ stage }: { stage: string }) {
  const reached = STAGES.findIndex(([name]) => name === stage);
  return (
    <ol class="stages" aria-label="Progress">
      {STAGES.map(([, label], index) => (
        <li aria-current={index === reached + 1 ? "step" : undefined}>
          <StateMark status={index <= reached ? "completed" : index === reached + 1 ? "running" : "pending"} /> {label}
        </li>
      ))}
    </ol>
  );
}

function Result({ rewind, onClose }: { rewind: Rewind; onClose: () => void }) {
  const [undone, setUndone] = useState(false);
  if (undone) return <p role="status">The rewind was undone: files, branches and tasks are as before.</p>;
  return (
    <>
      <p role="status">
        <RewindState rewind={rewind} /> {rewind.stage === "done" ? `The task went back to ${formatMoment(rewind.to)}, with ${formatCount(rewind.files, "file")}.` : "Nothing was changed: something differed from the preview."}
      </p>
      <RewindFacts rewind={rewind} />
      {mayUndo(rewind) && <UndoForm rewind={rewind} onDone={() => setUndone(true)} />}
      <div class="dialog-foot"><code>{rewind.id}</code> <button type="button" class="button" onClick={onClose}>Close</button></div>
    </>
  );
}

function RewindState({ rewind }: { rewind: Rewind }) {
  if (rewind.undone_by) return <State status="skipped" word="undone" />;
  const looks: Record<string, string> = { done: "completed", cancelled: "aborted" };
  return <State status={looks[rewind.stage] ?? "running"} word={humanize(rewind.stage)} />;
}

function RewindFacts({ rewind }: { rewind: Rewind }) {
  const others = rewind.tasks?.filter((each) => each.role !== "rewound") ?? [];
  return (
    <ul class="plain">
      {rewind.rescue_branches.map((each) => <li>Saved before: <code>{reveal(each)}</code></li>)}
      {rewind.kept?.map((each) => <li>Changed meanwhile and kept: <code>{reveal(each)}</code></li>)}
      {rewind.reverted?.map((each) => <li>Reverted: <code>{reveal(each)}</code></li>)}
      {rewind.merges?.map((each) => <li>To take it in: <code>git merge {reveal(each.branch)}</code> in the tree of <code>{reveal(each.into)}</code></li>)}
      {others.map((each) => <li><a href={taskAddress(each.task_id)}>{each.task_id}</a> {each.role === "reset" ? "begins again" : "is marked as built on stale work"}</li>)}
    </ul>
  );
}

/** Undoing a rewind, or going on with one that was interrupted. */
function UndoForm({ rewind, onDone }: { rewind: Rewind; onDone: () => void }) {
  const form = useRef<HTMLFormElement>(null);
  const act = useAct<Rewind>((answer) => {
    showResult({ text: answer.undoes ? "The rewind was undone." : "The rewind is complete." });
    onDone();
  });
  const goesOn = isUnfinished(rewind);
  const submit = (event: Event) => {
    event.preventDefault();
    if (goesOn && !rewind.undoes) void act.call("rewind_task", { task_id: rewind.task_id }, form.current);
    else void act.call("undo_rewind", { rewind_id: rewind.undoes ?? rewind.id }, form.current);
  };
  return (
    <form ref={form} onSubmit={submit}>
      <p>{goesOn ? "It was interrupted, and goes on where it stopped." : "Undoing puts files, branches and tasks back as they were before, unless something has changed since."}</p>
      <ActProof failure={act.failure} />
      <FailureNote failure={act.failure} />
      <div class="actions">
        <button type="submit" class="button" disabled={act.isBusy}>{act.isBusy ? "Working …" : goesOn ? "Go on" : "Undo"}</button>
      </div>
    </form>
  );
}

/** The rewinds of a task, the newest first; the last one can be undone. */
export function Rewinds({ task }: { task: string }) {
  const list = useResource<{ rewinds: Rewind[]; total: number }>(`/rewinds?task_id=${encodeURIComponent(task)}&limit=10`, isOf(task));
  const [opened, setOpened] = useState<Rewind | null>(null);
  if (!list.data?.total) return null;
  const canAct = me.value.actions?.includes("undo_rewind");
  return (
    <Section title="Rewinds" count={list.data.total}>
      <ul class="cards" aria-label="Rewinds of this task">
        {list.data.rewinds.map((each) => (
          <li class="card" data-item data-rewind={each.id}>
            <div class="card-head">
              <RewindState rewind={each} />
              <h3>{each.undoes ? <>Undid <code>{each.undoes}</code></> : <>To {formatMoment(each.to)}</>}</h3>
              <span class="faint">{formatCount(each.files, "file")} · {each.created_by.replace(/^human:/, "")} · <Ago at={each.created_at} /></span>
              {canAct && (mayUndo(each) || isUnfinished(each)) && (
                <button type="button" class="button tiny" onClick={() => setOpened(each)}>{isUnfinished(each) ? "Go on…" : "Undo…"}</button>
              )}
            </div>
            <RewindFacts rewind={each} />
            {isUnfinished(each) && <Progress stage={each.stage} />}
          </li>
        ))}
      </ul>
      {opened && (
        <Dialog title={isUnfinished(opened) ? `Go on with ${opened.id}` : `Undo ${opened.id}`} onClose={() => setOpened(null)}>
          <UndoForm rewind={opened} onDone={() => { setOpened(null); list.reload(); }} />
        </Dialog>
      )}
    </Section>
  );
}

/** That a task was built on work that was rewound since. */
export function StaleInput({ entries }: { entries: unknown }) {
  if (!Array.isArray(entries) || !entries.length) return null;
  return (
    <div class="callout">
      <State status="stale_input" />
      <span>
        It was built on work that was rewound since:{" "}
        {(entries as Record<string, string>[]).map((each, index) => (
          <>
            {index > 0 && ", "}
            <a href={taskAddress(each.task_id ?? "")}>{reveal(each.name ?? each.task_id ?? "")}</a>
          </>
        ))}
        . Check whether it still fits.
      </span>
    </div>
  );
}
