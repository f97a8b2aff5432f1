import { describe, expect, it } from "vitest";
import { formatMoment, isUnfinished, mayUndo } from "../src/view/rewinds";

describe("rewinds", () => {
  it("name the moment that a task goes back to", () => {
    expect(["start", "attempt:2", "checkpoint:3"].map(formatMoment)).toEqual(["its start", "the start of attempt 2", "checkpoint 3"]);
  });

  it("can be undone once, when they are done", () => {
    expect(mayUndo({ stage: "done" })).toBe(true);
    expect([{ stage: "files" }, { stage: "cancelled" }, { stage: "done", undoes: "rw_1" }, { stage: "done", undone_by: "rw_2" }].some(mayUndo)).toBe(false);
  });

  it("go on if they were interrupted", () => {
    expect(["planned", "rescued", "files", "state", "done", "cancelled"].map((stage) => isUnfinished({ stage }))).toEqual([true, true, true, true, false, false]);
  });
});
