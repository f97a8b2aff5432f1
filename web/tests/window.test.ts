import { expect, test } from "vitest";
import { scrollToShow, slot, windowOf } from "../src/view/window";

test("only the visible rows and a few more are drawn", () => {
  const { first, last, size } = windowOf(30_000, 600, 30, 10_000);

  expect(first).toBeLessThan(1000);
  expect(last).toBeGreaterThan(1020);
  expect(size).toBeLessThan(40);
});

test("the first and last rows of the list are drawn", () => {
  expect(windowOf(0, 600, 30, 10_000).first).toBe(0);
  expect(windowOf(299_400, 600, 30, 10_000).last).toBe(10_000);
  expect(windowOf(0, 600, 30, 3)).toEqual({ first: 0, last: 3, size: 3 });
  expect(windowOf(500, 600, 30, 0)).toEqual({ first: 0, last: 0, size: 0 });
});

test("a row keeps its element while it is visible, and no two rows share one", () => {
  const before = windowOf(30_000, 600, 30, 10_000);
  const after = windowOf(30_090, 600, 30, 10_000);
  const slots = new Set<number>();
  for (let row = after.first; row < after.last; row++) slots.add(slot(row, after.size));

  expect(after.size).toBe(before.size);
  expect(slots.size).toBe(after.size);
  expect(slot(1010, before.size)).toBe(slot(1010, after.size));
});

test("only a row that is not visible needs scrolling", () => {
  expect(scrollToShow(2, 300, 600, 30)).toBe(60);
  expect(scrollToShow(50, 300, 600, 30)).toBe(930);
  expect(scrollToShow(15, 300, 600, 30)).toBeNull();
});
