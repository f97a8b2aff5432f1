/** One line that says what an act did, with Undo where that is possible. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

export interface Result {
  text: string;
  /** Takes it back; what it answers is shown instead. */
  undo?: () => Promise<string | void>;
  tone?: "good" | "bad";
}

const result = signal<Result | null>(null);
const isUndoing = signal(false);
const SHOWN_FOR = 15_000;

export function showResult(next: Result): void {
  result.value = next;
}

/** Takes back the last act, on `u`; false if that is not possible. */
export function undoLast(): boolean {
  const last = result.peek();
  if (!last?.undo || isUndoing.peek()) return false;
  void undo(last);
  return true;
}

async function undo(last: Result): Promise<void> {
  isUndoing.value = true;
  try {
    showResult({ text: (await last.undo!()) || `Undone: ${last.text}`, tone: "good" });
  } catch (problem) {
    showResult({ text: `Not undone: ${(problem as Error).message}`, tone: "bad" });
  } finally {
    isUndoing.value = false;
  }
}

export function ResultLine() {
  const [isHeld, setHeld] = useState(false);
  const shown = result.value;
  useEffect(() => {
    if (!shown || isHeld) return;
    const timer = setTimeout(() => {
      if (result.peek() === shown) result.value = null;
    }, SHOWN_FOR);
    return () => clearTimeout(timer);
  }, [shown, isHeld]);
  return (
    <div class="result-room" role="status" aria-live="polite" aria-atomic="true" id="result">
      {shown && (
        <div class={`result is-${shown.tone ?? "good"}`} onPointerEnter={() => setHeld(true)} onPointerLeave={() => setHeld(false)} onFocusIn={() => setHeld(true)} onFocusOut={() => setHeld(false)}>
          <span class="result-text">{shown.text}</span>
          {shown.undo && (
            <button type="button" class="button tiny" disabled={isUndoing.value} onClick={() => void undoLast()}>
              Undo <kbd aria-hidden="true">u</kbd>
            </button>
          )}
          <button type="button" class="button tiny" aria-label="Dismiss" onClick={() => (result.value = null)}>
            ×
          </button>
        </div>
      )}
    </div>
  );
}
