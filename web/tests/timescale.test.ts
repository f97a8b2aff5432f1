import { expect, test } from "vitest";
import { ticks, timeScale } from "../src/view/timescale";

test("moments are placed in proportion, and places are moments again", () => {
  const scale = timeScale([{ start: 0, end: 100_000 }], 0, false);

  expect(scale.place(25_000)).toBeCloseTo(0.25);
  expect(scale.moment(0.25)).toBeCloseTo(25_000);
});

test("a long pause is folded to a sliver", () => {
  const spans = [{ start: 0, end: 10_000 }, { start: 990_000, end: 1_000_000 }];
  const scale = timeScale(spans, 0, true);

  expect(scale.gaps).toEqual([{ start: 10_000, end: 990_000 }]);
  expect(scale.place(10_000)).toBeGreaterThan(0.48);
  expect(scale.place(990_000)).toBeLessThan(0.52);
  expect(scale.moment(scale.place(995_000))).toBeCloseTo(995_000, -1);
});

test("what overlaps leaves no pause", () => {
  expect(timeScale([{ start: 0, end: 90_000 }, { start: 10_000, end: 20_000 }, { start: 85_000, end: 100_000 }], 0, true).gaps).toEqual([]);
});

test("a run in which nothing has begun has an axis too", () => {
  expect(timeScale([], 1_000_000, true).to).toBe(1_000_000);
});

test("ticks are round and no more than fit", () => {
  const found = ticks(1_000, 61_000, 8);

  expect(found.length).toBeLessThanOrEqual(8);
  expect(found.every((at) => at % 10_000 === 0)).toBe(true);
});
