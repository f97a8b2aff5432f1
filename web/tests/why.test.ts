import { describe, expect, it } from "vitest";
import { formatLines, formatQuestion, parseQuestion, whyQuery } from "../src/view/why";

describe("questions about code", () => {
  it("are a file, a line of one, a commit or a range", () => {
    expect(parseQuestion(" src/a.py:12 ")).toEqual({ path: "src/a.py", line: 12 });
    expect(parseQuestion("src/a.py")).toEqual({ path: "src/a.py" });
    expect(parseQuestion("0123abc")).toEqual({ commit: "0123abc" });
    expect(parseQuestion("main")).toEqual({ commit: "main" });
    expect(parseQuestion("v1.0..HEAD")).toEqual({ commit: "v1.0..HEAD" });
    expect(parseQuestion("  ")).toBeNull();
  });

  it("are written as they are asked", () => {
    for (const text of ["src/a.py:12", "src/a.py", "0123abc"]) expect(formatQuestion(parseQuestion(text)!)).toBe(text);
    expect(whyQuery({ path: "a b.py", line: 3, commit: "main" })).toBe("path=a+b.py&line=3&commit=main");
  });

  it("name lines", () => {
    expect([formatLines([[3, 3]]), formatLines([[1, 4]]), formatLines([[1, 4], [9, 9]])]).toEqual(["line 3", "lines 1–4", "lines 1–4, 9"]);
  });
});
