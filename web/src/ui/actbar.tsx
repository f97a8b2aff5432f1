/** The acts that apply to an item, as buttons, and the box for what an act needs. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { actsFor, asking, begin, draftOf, isActing, labelOf, leaveAsking, perform, type Act, type Asking, type Choice, type Subject } from "../acts";
import { useDraft } from "../data/drafts";
import { hasShortcuts } from "../preferences";
import { Dialog } from "./dialog";

/** The act bars on the page, by whom they are about: what they do not show is asked in a dialog. */
const bars: string[] = [];
const nameOf = (subjects: readonly Subject[]): string => subjects.map((each) => `${each.kind}:${each.id}`).join(" ");

interface ActBarProps {
  subject?: Subject | null;
  subjects?: Subject[];
  /** Acts of this item alone, besides those that are registered. */
  more?: Act[];
}

export function ActBar({ subject, subjects, more = [] }: ActBarProps) {
  const about = subjects ?? (subject ? [subject] : []);
  const name = nameOf(about);
  useMemo(() => void bars.push(name), [name]);
  useEffect(() => () => void bars.splice(bars.indexOf(name), 1), [name]);
  const offered = [...actsFor(about), ...(about.length === 1 ? more : [])];
  const waiting = asking.value;
  const isMine = waiting !== null && nameOf(waiting.subjects) === name;
  if (about.length === 0 || offered.length === 0) return null;
  return (
    <div class="actbar" role="group" aria-label={about.length > 1 ? `Do with ${about.length} items` : `Do with ${about[0]!.title}`}>
      {isMine && <AskBox key={`${waiting.act.id} ${name}`} waiting={waiting} />}
      <div class="actbar-buttons">
        {about.length > 1 && <strong>{about.length} selected</strong>}
        {offered.map((act) => (
          <button
            type="button"
            class={`button${act.isMain ? " primary" : ""}${act.isHarmful ? " danger" : ""}`}
            aria-keyshortcuts={hasShortcuts.value ? act.key : undefined}
            aria-pressed={isMine && waiting.act === act ? true : undefined}
            data-act={act.id}
            disabled={isActing.value}
            onClick={() => begin(act, about)}
          >
            {labelOf(act, about[0]!)}
            {act.key && hasShortcuts.value && <kbd aria-hidden="true">{act.key}</kbd>}
          </button>
        ))}
      </div>
    </div>
  );
}

/** Asks in a dialog what no act bar on the page asks. */
export function ActDialog() {
  const waiting = asking.value;
  if (!waiting || bars.includes(nameOf(waiting.subjects))) return null;
  const title = labelOf(waiting.act, waiting.subjects[0]!);
  return (
    <Dialog title={waiting.subjects.length === 1 ? `${title}: ${waiting.subjects[0]!.title}` : `${title}: ${waiting.subjects.length} items`} onClose={() => void leaveAsking()}>
      <AskBox key={waiting.act.id} waiting={waiting} />
    </Dialog>
  );
}

function AskBox({ waiting }: { waiting: Asking }) {
  const { act, subjects } = waiting;
  const draft = useDraft(draftOf(act, subjects));
  const form = useRef<HTMLFormElement>(null);
  const [choices, setChoices] = useState<Choice[] | null>(null);
  useEffect(() => {
    if (act.choices) void Promise.resolve(act.choices(subjects[0]!)).then(setChoices, () => setChoices([]));
  }, [act]);
  useEffect(() => {
    const before = document.activeElement;
    form.current?.querySelector<HTMLElement>("textarea, select, input, button")?.focus();
    form.current?.scrollIntoView({ block: "nearest" });
    return () => {
      if (before instanceof HTMLElement && before.isConnected && document.activeElement === document.body) before.focus();
    };
  }, []);
  // The list of choices cannot have the focus until it is there.
  useEffect(() => {
    if (choices?.length) form.current?.querySelector<HTMLElement>("select")?.focus();
  }, [choices !== null]);
  const send = (event: Event) => {
    event.preventDefault();
    const given = new FormData(form.current!);
    const passphrase = String(given.get("passphrase") ?? "");
    void perform(act, subjects, act.needsWords ? draft.text : "", { ...(passphrase ? { proof: { passphrase } } : {}), ...(act.choices ? { choice: String(given.get("choice") ?? "") } : {}) });
  };
  const label = labelOf(act, subjects[0]!);
  return (
    <form
      ref={form}
      class="askbox"
      aria-label={label}
      onSubmit={send}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
        else if (event.key === "Escape") leaveAsking();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      {act.prompt && <p class="askbox-prompt">{act.prompt(subjects[0]!)}</p>}
      {act.choices && (
        <label class="ask">
          <span>{label}</span>
          <select name="choice" disabled={choices === null}>
            {choices?.map((each) => <option value={each.value}>{each.label}</option>)}
          </select>
        </label>
      )}
      {act.needsWords && (
        <label class="ask">
          <span>{act.needsWords === "optional" ? "Words (optional)" : "Words"}</span>
          <textarea rows={3} required={act.needsWords === true} value={draft.text} onInput={(event) => draft.set(event.currentTarget.value)} />
        </label>
      )}
      {waiting.needsPassphrase && (
        <label class="ask">
          <span>Passphrase</span>
          <input type="password" name="passphrase" autoComplete="current-password" required />
        </label>
      )}
      {act.isHarmful && !act.needsWords && <p>This is recorded under your name and cannot be undone.</p>}
      {waiting.refusal && (
        <div class="form-error" role="alert">
          <p>{waiting.refusal}</p>
          {waiting.approval && <p><a class="button" href={`/approvals/${waiting.approval}`} target="_blank" rel="noopener">Open {waiting.approval} in a new tab</a></p>}
        </div>
      )}
      <div class="askbox-foot">
        <button type="submit" class={act.isHarmful ? "button danger" : "button primary"} disabled={isActing.value}>
          {isActing.value ? "Working …" : label} <kbd aria-hidden="true">Ctrl ↵</kbd>
        </button>
        <button type="button" class="button" onClick={() => void leaveAsking()}>
          Close
        </button>
        {draft.text && act.needsWords && <span class="faint">Draft kept</span>}
      </div>
    </form>
  );
}
