import { expect, test } from "vitest";
import { describePhases, dotsOf } from "../src/view/phases";

test("only completed phases are shown as completed", () => {
  const phase = { current: 4, total: 5, statuses: ["completed", "failed", "pending", "in_progress", "pending"] };

  expect(dotsOf(phase)).toEqual(["is-past", "is-failed", "", "is-now", ""]);
  expect(describePhases(phase)).toBe("phase 4 of 5, 1 failed");
});

test("many phases are only counted", () => {
  expect(dotsOf({ current: 3, total: 40 })).toEqual([]);
  expect(describePhases({ current: 41, total: 40 })).toBe("phase 40 of 40");
});
