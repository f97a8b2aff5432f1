import { expect, test } from "vitest";
import { EventBuffer } from "../src/data/event-buffer";
import type { Envelope } from "../src/data/shapes";

const makeEvents = (...seqs: number[]): Envelope[] => seqs.map((seq) => ({ seq, ts: "", type: "task:updated", workflow_id: null, data: {} }));
const numbers = (events: Envelope[] | null) => events?.map((event) => event.seq) ?? null;

test("events come out in the order of their numbers, not of arrival", () => {
  expect(numbers(new EventBuffer(3).add(makeEvents(6, 4, 5)))).toEqual([4, 5, 6]);
});

test("an event is added once, however often it arrives", () => {
  const eventBuffer = new EventBuffer(0);
  eventBuffer.add(makeEvents(1, 2, 2));

  expect(numbers(eventBuffer.add(makeEvents(1, 2, 3, 3)))).toEqual([3]);
});

test("events since a number can be read again", () => {
  const eventBuffer = new EventBuffer(4);
  eventBuffer.add(makeEvents(5, 6, 7));

  expect(numbers(eventBuffer.since(5))).toEqual([6, 7]);
  expect(numbers(eventBuffer.since(7))).toEqual([]);
});

test("null is returned if some of the events are no longer buffered", () => {
  const eventBuffer = new EventBuffer(0, 2);
  for (let seq = 1; seq <= 10; seq++) eventBuffer.add(makeEvents(seq));

  expect(eventBuffer.since(1)).toBeNull();
});

test("after a restart it continues from the given number", () => {
  const eventBuffer = new EventBuffer(5);
  eventBuffer.restart(90);

  expect(numbers(eventBuffer.add(makeEvents(89, 91)))).toEqual([91]);
});
