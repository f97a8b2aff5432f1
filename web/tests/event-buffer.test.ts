import { expect, test } from "vitest";
import { EventBuffer } from "../src/data/event-buffer";
import type { Envelope } from "../src/data/shapes";

const told = (...seqs: number[]): Envelope[] => seqs.map((seq) => ({ seq, ts: "", type: "task:updated", workflow_id: null, data: {} }));
const numbers = (events: Envelope[] | null) => events?.map((event) => event.seq) ?? null;

test("events come out in the order of their numbers, not of their arrival", () => {
  expect(numbers(new EventBuffer(3).take(told(6, 4, 5)))).toEqual([4, 5, 6]);
});

test("an event is taken once, however often it arrives", () => {
  const eventBuffer = new EventBuffer(0);
  eventBuffer.take(told(1, 2, 2));

  expect(numbers(eventBuffer.take(told(1, 2, 3, 3)))).toEqual([3]);
});

test("what was told since a reading can be had again", () => {
  const eventBuffer = new EventBuffer(4);
  eventBuffer.take(told(5, 6, 7));

  expect(numbers(eventBuffer.since(5))).toEqual([6, 7]);
  expect(numbers(eventBuffer.since(7))).toEqual([]);
});

test("when too much was told to remember, it says so", () => {
  const eventBuffer = new EventBuffer(0, 2);
  for (let seq = 1; seq <= 10; seq++) eventBuffer.take(told(seq));

  expect(eventBuffer.since(1)).toBeNull();
});

test("after a loss it goes on from where it is told to", () => {
  const eventBuffer = new EventBuffer(5);
  eventBuffer.restart(90);

  expect(numbers(eventBuffer.take(told(89, 91)))).toEqual([91]);
});
