/** Buttons for the actions a person can take. Each calls a tool and asks for the missing arguments. */

import { useState } from "preact/hooks";
import { ApiError, callTool } from "../data/api";
import { saveDraft, useDraft } from "../data/drafts";
import { me } from "../data/live";
import type { Action, Ask } from "../data/shapes";
import { Dialog } from "./dialog";
import { humanize } from "./parts";
import { showResult } from "./result";

const HARMFUL = new Set(["abandon_task", "abort_workflow"]);

/** Whether it cannot be undone: `now` ends agents that work. */
const isHarmful = (action: Action): boolean => HARMFUL.has(action.tool) || action.arguments.now === true;

export function Actions({ actions, onDone }: { actions: Action[] | undefined; onDone?: () => void }) {
  // What the token may not do, or the server does not offer, is not shown.
  const offered = me.value.actions ?? [];
  const shown = actions?.filter((action) => offered.includes(action.tool)) ?? [];
  if (!shown.length) return null;
  return (
    <div class="actions">
      {shown.map((action) => (
        <ActionButton action={action} onDone={onDone} />
      ))}
    </div>
  );
}

/** What is typed for an action stays until it was carried out. */
const draftOf = (action: Action, ask: Ask): string => `action:${action.tool}:${JSON.stringify(action.arguments)}:${ask.name}`;

function AskField({ ask, draft, autoFocus }: { ask: Ask; draft: string; autoFocus: boolean }) {
  const { text, set } = useDraft(draft);
  return (
    <label class="ask">
      <span>{ask.label}</span>
      <textarea name={ask.name} rows={3} required={!ask.optional} autoFocus={autoFocus} value={text} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}

function ActionButton({ action, onDone }: { action: Action; onDone?: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [needsPassphrase, setNeedsPassphrase] = useState(false);
  const [key, setKey] = useState(() => crypto.randomUUID());
  const mustAsk = Boolean(action.asks?.length) || isHarmful(action) || Object.values(action.arguments).includes("abandoned");

  const execute = async ({ passphrase, ...given }: Record<string, string>) => {
    setBusy(true);
    setError("");
    try {
      await callTool(action.tool, { ...action.arguments, ...given, ...(passphrase ? { proof: { passphrase } } : {}) }, key);
      for (const ask of action.asks ?? []) saveDraft(draftOf(action, ask), "");
      showResult({ text: `${action.label}: done.` });
      setOpen(false);
      setKey(crypto.randomUUID());
      onDone?.();
    } catch (problem) {
      const more = problem instanceof ApiError && problem.body.suggestion ? ` ${problem.body.suggestion}` : "";
      setError(`${(problem as Error).message}${more}`);
      // A rejected call had no effect, so the next attempt gets a new key.
      if (problem instanceof ApiError && problem.status < 500) setKey(crypto.randomUUID());
      // What lets work pass a gate takes the same proof as an approval; only the server knows whether this does.
      if (problem instanceof ApiError && problem.body.proof === "passphrase") setNeedsPassphrase(true);
      if (!mustAsk) setOpen(true);
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <button
        type="button"
        class={isHarmful(action) ? "button danger" : "button"}
        disabled={isBusy}
        onClick={() => (mustAsk ? setOpen(true) : void execute({}))}
      >
        {action.label}
      </button>
      {isOpen && (
        <Dialog title={action.title ?? action.label} onClose={() => setOpen(false)}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              const given: Record<string, string> = {};
              for (const [name, value] of new FormData(event.currentTarget as HTMLFormElement)) if (String(value).trim()) given[name] = String(value);
              void execute(given);
            }}
          >
            {action.asks?.map((ask, index) => (
              <AskField ask={ask} draft={draftOf(action, ask)} autoFocus={index === 0} />
            ))}
            {needsPassphrase && (
              <label class="ask">
                <span>Passphrase</span>
                <input type="password" name="passphrase" autoComplete="current-password" required />
              </label>
            )}
            {!action.asks?.length && <p>This is recorded under your name and cannot be undone.</p>}
            {error && (
              <p class="form-error" role="alert">
                {error}
              </p>
            )}
            <div class="dialog-foot">
              <span class="faint">{humanize(action.tool)}</span>
              <button type="submit" class="button primary" disabled={isBusy}>
                {isBusy ? "Working …" : action.label}
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
