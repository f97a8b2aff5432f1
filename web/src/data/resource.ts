/** Which events make an answer out of date. */

import type { EventFilter } from "./store";

export { useResource, type EventFilter, type Resource } from "./store";

/** What an agent does now changes nothing but its own row, every few seconds. */
export const isProgress: EventFilter = (event) => event.type === "attempt:progress";

export const ofRun =
  (run: string): EventFilter =>
  (event) =>
    event.workflow_id === run && !isProgress(event);

export const anyOf =
  (...things: string[]): EventFilter =>
  (event) =>
    things.includes(event.type.split(":")[0]!);

/** How often what changes without an event is read again, in milliseconds: whether a process still drives a run. */
export const LOOK_AGAIN = 10_000;
