import { expect, test } from "vitest";
import { ticks, timeScale } from "../src/view/timescale";

test("times map to proportional positions and back", () => {
  const scale = timeScale([{ start: 0, end: 100_000 }], 0, false);

  expect(scale.place(25_000)).toBeCloseTo(0.25);
  expect(scale.moment(0.25)).toBeCloseTo(25_000);
});

test("a long idle period is folded to a small gap", () => {
  const spans = [{ start: 0, end: 10_000 }, { start: 990_000, end: 1_000_000 }];
  const scale = timeScale(spans, 0, true);

  expect(scale.gaps).toEqual([{ start: 10_000, end: 990_000 }]);
  expect(scale.place(10_000)).toBeGreaterThan(0.48);
  expect(scale.place(990_000)).toBeLessThan(0.52);
  expect(scale.moment(scale.place(995_000))).toBeCloseTo(995_000, -1);
});

test("overlapping spans leave no gap", () => {
  expect(timeScale([{ start: 0, end: 90_000 }, { start: 10_000, end: 20_000 }, { start: 85_000, end: 100_000 }], 0, true).gaps).toEqual([]);
});

test("a run without started tasks has an axis too", () => {
  expect(timeScale([], 1_000_000, true).to).toBe(1_000_000);
});

test("ticks are round, and no more than the limit", () => {
  const found = ticks(1_000, 61_000, 8);

  expect(found.length).toBeLessThanOrEqual(8);
  expect(found.every((at) => at % 10_000 === 0)).toBe(true);
});
