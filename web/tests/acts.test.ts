import { beforeEach, expect, test, vi } from "vitest";

const stored = new Map<string, string>();
vi.stubGlobal("localStorage", { getItem: (name: string) => stored.get(name) ?? null, setItem: (name: string, value: string) => stored.set(name, value), removeItem: (name: string) => stored.delete(name) });
vi.stubGlobal("location", { pathname: "/", search: "" });
const { actsFor, asking, begin, focus, leaveAsking, perform, registerActs, wordsFor } = await import("../src/acts");
const { ApiError } = await import("../src/data/api");
const { readDraft, saveDraft } = await import("../src/data/drafts");

const subject = (id: string, kind = "need") => ({ kind, id, title: id.toUpperCase(), thing: null });
const ran: [string, string][] = [];
let refusal: Error | null = null;
const refuse = {
  id: "test.refuse",
  label: "Send back",
  needsWords: true,
  applies: (each: { kind: string }) => each.kind === "need",
  run: async (each: { id: string }, words: string) => {
    if (refusal && each.id !== "a") throw refusal;
    ran.push([each.id, words]);
    return { text: `Sent back ${each.id}.` };
  },
};
registerActs(refuse);
registerActs(refuse);

beforeEach(() => {
  ran.length = 0;
  refusal = null;
  asking.value = null;
  stored.clear();
  saveDraft("need:a", "");
  focus.value = { focused: null };
});

test("an act is offered if it applies to every item, and once although it was registered twice", () => {
  expect(actsFor([subject("a"), subject("b")])).toEqual([refuse]);
  expect(actsFor([subject("a"), subject("t", "task")])).toEqual([]);
  expect(actsFor([])).toEqual([]);
});

test("an act that needs words asks for them, and leaving it keeps the draft", () => {
  begin(refuse, [subject("a")]);
  saveDraft("need:a", "Too slow");
  expect(leaveAsking()).toBe(true);
  expect(ran).toEqual([]);
  begin(refuse, [subject("a")]);
  expect(wordsFor(asking.value!)).toBe("Too slow");
});

test("after success the draft is gone and the focus moves on", async () => {
  const next = vi.fn();
  focus.value = { focused: subject("a"), next };
  saveDraft("need:a", "Too slow");
  begin(refuse, [subject("a")]);
  expect(await perform(refuse, [subject("a")], "Too slow")).toBe(true);
  expect(ran).toEqual([["a", "Too slow"]]);
  expect(readDraft("need:a")).toBe("");
  expect(next).toHaveBeenCalledOnce();
  expect(asking.value).toBeNull();
});

test("after a refusal the words stay, what is left stays, and the next try is a new call", async () => {
  refusal = new ApiError(409, { code: "CONFLICT", message: "Decided already.", suggestion: "Look again." });
  begin(refuse, [subject("a"), subject("b"), subject("c")]);
  const key = asking.value!.key;
  expect(await perform(refuse, [subject("a"), subject("b"), subject("c")], "No")).toBe(false);
  expect(ran).toEqual([["a", "No"]]);
  expect(asking.value!.subjects.map((each) => each.id)).toEqual(["b", "c"]);
  expect(asking.value!.refusal).toBe("Decided already. Look again.");
  expect(asking.value!.key).not.toBe(key);
});

test("after silence the same call is repeated, so that it happens once", async () => {
  refusal = new Error("The server is not responding.");
  begin(refuse, [subject("b")]);
  const key = asking.value!.key;
  await perform(refuse, [subject("b")], "No");
  expect(asking.value!.key).toBe(key);
});

test("a passphrase is asked for when the server demands one", async () => {
  refusal = new ApiError(403, { code: "PROOF", message: "Needs a passphrase.", proof: "passphrase" });
  await perform(refuse, [subject("b")], "No");
  expect(asking.value!.needsPassphrase).toBe(true);
});
