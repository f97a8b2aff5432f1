/** Dialogs that change a plan: a new task, or other words for one. What was typed is kept until it is sent. */

import { useState } from "preact/hooks";
import { ApiError, callTool } from "../data/api";
import { useDraft } from "../data/drafts";
import { useResource } from "../data/resource";
import type { TaskAnswer } from "../data/shapes";
import { Dialog } from "../ui/dialog";
import { Skeleton } from "../ui/parts";
import { showResult } from "../ui/result";
import { editing, isBusy, type Editing, type TaskThing } from "./run-acts";

const REACHES: Record<string, string> = {
  next_call: "Its agent hears it after the tool call that it is in.",
  next_start: "It opens the next start of its agent.",
  next_agent: "It opens the prompt of the next agent.",
};

export function Editor({ names, onDone }: { names: () => Promise<string[]>; onDone: () => void }) {
  const open = editing.value;
  const close = () => (editing.value = null);
  if (!open) return null;
  const done = () => {
    close();
    onDone();
  };
  return open.kind === "add" ? <AddTask key={open.plan} plan={open} names={names} onClose={close} onDone={done} /> : <RewordTask key={open.task.id} task={open.task} onClose={close} onDone={done} />;
}

/** Calls a tool once for each click; a refusal is shown and the text stays. */
function useCall(): { isBusy: boolean; refusal: string; call: (tool: string, given: Record<string, unknown>) => Promise<any> } {
  const [isWorking, setWorking] = useState(false);
  const [refusal, setRefusal] = useState("");
  const [key, setKey] = useState(() => crypto.randomUUID());
  const call = async (tool: string, given: Record<string, unknown>) => {
    setWorking(true);
    setRefusal("");
    try {
      return await callTool(tool, given, key);
    } catch (problem) {
      const more = problem instanceof ApiError && problem.body.suggestion ? ` ${problem.body.suggestion}` : "";
      setRefusal(`${(problem as Error).message}${more}`);
      if (problem instanceof ApiError && problem.status < 500) setKey(crypto.randomUUID());
      return null;
    } finally {
      setWorking(false);
    }
  };
  return { isBusy: isWorking, refusal, call };
}

function AddTask({ plan, names, onClose, onDone }: { plan: Editing & { kind: "add" }; names: () => Promise<string[]>; onClose: () => void; onDone: () => void }) {
  const name = useDraft(`task-name:${plan.plan}`);
  const text = useDraft(`task-text:${plan.plan}`);
  const after = useDraft(`task-after:${plan.plan}`);
  const [known, setKnown] = useState<string[] | null>(null);
  const act = useCall();
  const send = async (event: Event) => {
    event.preventDefault();
    const waits = after.text.split("\n").map((each) => each.trim()).filter(Boolean);
    const answer = await act.call("workflow_add_task", { workflow_id: plan.plan, task: { name: name.text.trim(), description: text.text, depends_on: waits } });
    if (!answer) return;
    for (const draft of [name, text, after]) draft.clear();
    showResult({ text: `Added ${name.text.trim()}. ${plan.isDriven ? "The run takes it as soon as an agent is free." : `Start agents with deepwork run ${plan.plan}.`}`, tone: "good" });
    onDone();
  };
  return (
    <Dialog title="Add a task" onClose={onClose}>
      <form onSubmit={send}>
        <label class="ask">
          <span>Name</span>
          <input type="text" required maxLength={200} value={name.text} onInput={(event) => name.set(event.currentTarget.value)} autoFocus />
        </label>
        <label class="ask">
          <span>What is to be done</span>
          <textarea rows={6} value={text.text} onInput={(event) => text.set(event.currentTarget.value)} />
        </label>
        <label class="ask">
          <span>Waits for (names of tasks, one per line; empty: it can start at once)</span>
          <textarea rows={2} value={after.text} onFocus={() => known ?? void names().then(setKnown)} onInput={(event) => after.set(event.currentTarget.value)} />
        </label>
        {known && known.length > 0 && (
          <details class="run-names">
            <summary>Tasks that are not done</summary>
            <div>
              {known.slice(0, 200).map((each) => (
                <button type="button" class="button tiny" onClick={() => after.set([...after.text.split("\n").filter(Boolean), each].join("\n"))}>
                  {each}
                </button>
              ))}
            </div>
          </details>
        )}
        <Foot refusal={act.refusal} isBusy={act.isBusy} label="Add" note="Recorded under your name." />
      </form>
    </Dialog>
  );
}

function RewordTask({ task, onClose, onDone }: { task: TaskThing; onClose: () => void; onDone: () => void }) {
  const found = useResource<TaskAnswer>(`/tasks/${encodeURIComponent(task.id)}`);
  const is = found.data?.task;
  return (
    <Dialog title={`Reword: ${task.name}`} onClose={onClose}>
      {is ? <RewordForm task={task} before={{ name: String(is.name), description: String(is.description ?? "") }} onDone={onDone} /> : found.error ? <p class="form-error">{found.error.message}</p> : <Skeleton rows={3} />}
    </Dialog>
  );
}

function RewordForm({ task, before, onDone }: { task: TaskThing; before: { name: string; description: string }; onDone: () => void }) {
  const kept = { name: useDraft(`reword-name:${task.id}`), text: useDraft(`reword-text:${task.id}`) };
  const name = kept.name.savedAt === null ? before.name : kept.name.text;
  const description = kept.text.savedAt === null ? before.description : kept.text.text;
  const act = useCall();
  const send = async (event: Event) => {
    event.preventDefault();
    const answer = await act.call("reword_task", { task_id: task.id, name, description });
    if (!answer) return;
    kept.name.clear();
    kept.text.clear();
    const undo = async () => {
      await callTool("reword_task", { task_id: task.id, ...before }, crypto.randomUUID());
      return `${before.name} reads as before.`;
    };
    showResult(answer.changed ? { text: `${name} was changed. ${REACHES[answer.told?.reaches ?? ""] ?? ""}`.trim(), undo, tone: "good" } : { text: "It reads so already." });
    onDone();
  };
  return (
    <form onSubmit={send}>
      <label class="ask">
        <span>Name</span>
        <input type="text" required maxLength={200} value={name} onInput={(event) => kept.name.set(event.currentTarget.value)} />
      </label>
      <label class="ask">
        <span>What is to be done</span>
        <textarea rows={8} value={description} onInput={(event) => kept.text.set(event.currentTarget.value)} autoFocus />
      </label>
      <Foot refusal={act.refusal} isBusy={act.isBusy} label="Reword" note={isBusy(task) ? "Its agent is told." : "The next agent reads it so."} />
    </form>
  );
}

function Foot({ refusal, isBusy, label, note }: { refusal: string; isBusy: boolean; label: string; note: string }) {
  return (
    <>
      {refusal && (
        <p class="form-error" role="alert">
          {refusal}
        </p>
      )}
      <div class="dialog-foot">
        <span class="faint">{note}</span>
        <button type="submit" class="button primary" disabled={isBusy}>
          {isBusy ? "Working …" : label}
        </button>
      </div>
    </>
  );
}
