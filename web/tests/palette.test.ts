import { expect, test } from "vitest";
import { matches } from "../src/view/palette";

test("every typed word must occur", () => {
  expect(matches("ret exp", "Retry Export")).toBe(true);
  expect(matches("retry import", "Retry Export")).toBe(false);
  expect(matches("", "Anything")).toBe(true);
});

test("initials stand for a name of several words", () => {
  expect(matches("wce", "Why code exists")).toBe(true);
  expect(matches("xyz", "Why code exists")).toBe(false);
});
