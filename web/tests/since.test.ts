import { expect, test, vi } from "vitest";

vi.stubGlobal("location", { pathname: "/", search: "" });
const { addressOf, summarize } = await import("../src/view/since");
const { nameBrowser } = await import("../src/data/push");

const group = (total: number) => ({ total, items: [] });
const found = { since: "2026-11-19T06:00:00Z", until: "2026-11-19T08:10:00Z", is_back: true, is_kept: false, landed: group(3), done: group(0), failed: group(1), parked: group(0), decided: group(0), spent: { usd: 4.2, tokens: 10 }, total: 4 };
const line = { title: "x", at: found.since, detail: "" };

test("a summary leaves out what there was none of", () => {
  expect(summarize(found)).toBe("3 landed, 1 failed, $4.20 spent");
  expect(summarize({ ...found, landed: group(0), failed: group(0), spent: { usd: 0, tokens: 0 } })).toBe("");
});

test("every kind of line leads to its page", () => {
  const run = { id: "wf_1", kind: "plan" as const, name: "Release" };
  expect(addressOf({ ...line, kind: "task", id: "ab12cd34/step" })).toBe("/tasks/ab12cd34%2Fstep");
  expect(addressOf({ ...line, kind: "landing", id: "ld_1" })).toBe("/landings/ld_1");
  expect(addressOf({ ...line, kind: "approval", id: "ap_1" })).toBe("/approvals/ap_1");
  expect(addressOf({ ...line, kind: "session", id: "ab12cd34" })).toBe("/runs/ab12cd34");
  expect(addressOf({ ...line, kind: "attempt", id: "at_1", run })).toBe("/runs/wf_1");
  expect(addressOf({ ...line, kind: "decision", id: "dc_1", run })).toBe("/runs/wf_1?tab=decisions");
  expect(addressOf({ ...line, kind: "decision", id: "dc_1" })).toBe("/history?show=decisions");
});

test("a browser is named as people do", () => {
  expect(nameBrowser("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Mobile Safari/537.36")).toBe("Chrome on Android");
  expect(nameBrowser("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1")).toBe("Safari on iPhone");
  expect(nameBrowser("something")).toBe("A browser");
});
