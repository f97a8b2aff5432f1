/** Announcements for screen readers, batched so that a busy run does not talk constantly. */

import { signal } from "@preact/signals";

const announced = signal("");
let waiting: string[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

const PAUSE = 1500;

export function announce(text: string): void {
  if (!waiting.includes(text)) waiting.push(text);
  timer ??= setTimeout(() => {
    timer = undefined;
    announced.value = waiting.length > 3 ? `${waiting.slice(0, 2).join(" ")} And ${waiting.length - 2} more changes.` : waiting.join(" ");
    waiting = [];
  }, PAUSE);
}

export function Announcer() {
  return (
    <div class="unseen" role="status" aria-live="polite" aria-atomic="true" id="announcer">
      {announced.value}
    </div>
  );
}
