import { describe, expect, it } from "vitest";
import type { Lane, TranscriptEntry } from "../src/data/shapes-live";
import { describeDoing, findBlocks, nameAgent, sortLanes, summarize, toBlocks } from "../src/view/live";

const entry = (kind: TranscriptEntry["kind"], text: string, more: Partial<TranscriptEntry> = {}): TranscriptEntry => ({ key: `${kind}-${text}`, kind, text, ...more });

describe("a transcript", () => {
  it("joins a tool with its answer, also if its vendor names it twice", () => {
    const blocks = toBlocks([entry("tool", "a", { tool_id: "1", name: "Bash" }), entry("tool", "a b", { tool_id: "1", name: "Bash" }), entry("said", "Meanwhile."), entry("result", "no", { tool_id: "1", is_error: true })]);
    expect(blocks.map((each) => [each.kind, each.text, each.answer, each.isError])).toEqual([
      ["tool", "a b", "no", true],
      ["said", "Meanwhile.", null, false],
    ]);
  });

  it("keeps an answer whose tool is on an earlier page", () => {
    expect(toBlocks([entry("result", "ok", { tool_id: "0" })])[0]).toMatchObject({ kind: "tool", answer: "ok" });
  });

  it("joins what is one text, and nothing else", () => {
    const blocks = toBlocks([entry("said", "He"), entry("said", "llo", { is_delta: true }), entry("said", "Next"), entry("output", "1"), entry("output", "2")]);
    expect(blocks.map((each) => each.text)).toEqual(["Hello", "Next", "1\n2"]);
  });

  it("does not repeat the last words as its end", () => {
    expect(toBlocks([entry("said", "Done."), entry("end", "Done.")])[1]!.text).toBe("");
    expect(toBlocks([entry("said", "Done."), entry("end", "Wrote it.")])[1]!.text).toBe("Wrote it.");
  });

  it("is searched in what tools were given and answered", () => {
    const blocks = toBlocks([entry("tool", "make", { tool_id: "1" }), entry("result", "2 FAILED", { tool_id: "1" }), entry("said", "ok")]);
    expect([findBlocks(blocks, "failed"), findBlocks(blocks, " "), findBlocks(blocks, "none")]).toEqual([[0], [], []]);
  });

  it("says in a line what a tool was given", () => {
    expect([summarize('{"command": "make\\ntest"}'), summarize("ls -l\nx"), summarize("{half")]).toEqual(["make", "ls -l", "{half"]);
  });
});

describe("lanes", () => {
  const lane = (id: string, state: string, more: Partial<Lane> = {}): Lane => ({ id, state, created_at: "2026-11-19T00:00:00Z", profile: "claude", stage: "running", actions: [], ...more }) as Lane;

  it("begin with what needs a person", () => {
    const sorted = sortLanes([lane("b", "running"), lane("c", "parked"), lane("d", "needs_you"), lane("a", "running"), lane("e", "unattended")]);
    expect(sorted.map((each) => each.id)).toEqual(["d", "e", "a", "b", "c"]);
  });

  it("say what an agent does, or what was asked of it", () => {
    expect(describeDoing(lane("a", "running", { tool: "Bash: make", now_doing: "x" }))).toBe("Bash: make");
    expect(describeDoing(lane("a", "running", { now_doing: "I see.", last_line: "I see." }))).toBe("thinking");
    expect(describeDoing(lane("a", "needs_you", { stage: "parked", reason: "ada paused it." }))).toBe("ada paused it.");
    expect(describeDoing(lane("a", "running", { wish: "stop", tool: "Bash" }))).toContain("Ending");
  });

  it("name a command line by its script", () => {
    expect([nameAgent("claude"), nameAgent("python3 -u tools/agent.py {prompt_file}")]).toEqual(["claude", "agent.py"]);
  });
});
