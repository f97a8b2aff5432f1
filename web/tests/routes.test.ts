import { expect, test, vi } from "vitest";

vi.stubGlobal("document", { title: "" });
const { ENTRIES, REDIRECTS, findPlace, findRedirect } = await import("../src/routes");

test("every page of the navigation is found at its path, with and without a slash at the end", () => {
  for (const entry of ENTRIES) {
    expect(findPlace(entry.path)).toEqual({ route: entry, rest: "" });
    if (entry.path !== "/") expect(findPlace(`${entry.path}/`)?.route).toBe(entry);
  }
});

test("no two pages share a path or a key", () => {
  expect(new Set(ENTRIES.map((entry) => entry.path)).size).toBe(ENTRIES.length);
  expect(new Set(ENTRIES.map((entry) => entry.key)).size).toBe(ENTRIES.length);
});

test("a single thing has a page of its own, and its id may be encoded", () => {
  expect(findPlace("/runs/wf_1")).toMatchObject({ route: { name: "Run" }, rest: "wf_1" });
  expect(findPlace("/runs/wf_1/log")).toMatchObject({ rest: "wf_1/log" });
  expect(findPlace("/tasks/ab12cd34%2Fpolish")).toMatchObject({ rest: "ab12cd34/polish" });
  expect(findPlace("/approvals/ap_1")).not.toBeNull();
  expect(findPlace("/runs/%")).toMatchObject({ rest: "%" });
});

test("an unknown path is no page", () => {
  expect(findPlace("/nowhere")).toBeNull();
  expect(findPlace("/tasks")).toBeNull();
});

test("an old address leads to a page that exists, and keeps its query", () => {
  for (const [from, to] of REDIRECTS) {
    expect(findPlace(from)).toBeNull();
    expect(findPlace(to.split("?")[0]!)).not.toBeNull();
    expect(findRedirect(from, "q=x")).toContain("q=x");
  }
  expect(findRedirect("/runs", "")).toBeNull();
});
