import { expect, test } from "vitest";
import { describeForecast, suggestLimits, writeMinutes } from "../src/view/forecast";

test("a forecast names what is likely, and the span of half the tasks", () => {
  const forecast = { tasks_left: 12, based_on: 5, usd: { low: 2, likely: 3.5, high: 6 }, minutes: { low: 40, likely: 40, high: 40 } };
  expect(describeForecast(forecast)).toBe("12 tasks left: about $3.50 ($2.00 to $6.00) more, about 40 min more");
});

test("what is not known is said to be unknown", () => {
  expect(describeForecast({ tasks_left: 1, based_on: 2 })).toContain("not known");
});

test("suggested limits are higher than what was spent, and round", () => {
  expect(suggestLimits(12, 12.07)).toEqual([20, 25, 40, 65, 150]);
  expect(suggestLimits(null, 0).every((amount) => amount > 0)).toBe(true);
});

test("long times are hours and minutes", () => {
  expect([writeMinutes(0.3), writeMinutes(12.4), writeMinutes(125)]).toEqual(["under a minute", "12 min", "2 h 5 min"]);
});
