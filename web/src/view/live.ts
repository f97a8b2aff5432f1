/** Lanes of agents and their transcripts: what needs no browser. */

import type { Lane, TranscriptEntry } from "../data/shapes-live";

/** A part of a transcript as it is drawn: a tool has what it answered. */
export interface Block {
  key: string;
  kind: TranscriptEntry["kind"];
  text: string;
  name: string;
  /** What a tool answered; null while it has not. */
  answer: string | null;
  isError: boolean;
}

/** Joins what belongs together: parts of a text, lines of output, and a tool with its answer. */
export function toBlocks(entries: readonly TranscriptEntry[]): Block[] {
  const blocks: Block[] = [];
  const tools = new Map<string, Block>();
  for (const entry of entries) {
    const text = entry.text ?? "";
    const last = blocks[blocks.length - 1];
    if (entry.kind === "result") {
      const tool = tools.get(entry.tool_id ?? "");
      if (tool) {
        tool.answer = text;
        tool.isError = Boolean(entry.is_error);
      } else blocks.push(build(entry, { kind: "tool", name: "", text: "", answer: text }));
      continue;
    }
    if (entry.kind === "tool" && entry.tool_id && tools.has(entry.tool_id)) {
      const known = tools.get(entry.tool_id)!; // some vendors name it once more when it has answered
      if (text) known.text = text;
      continue;
    }
    if (last && last.kind === entry.kind && ((entry.kind === "said" && entry.is_delta) || (entry.kind === "output" && last.text.length < 4000))) {
      last.text += entry.kind === "output" ? `\n${text}` : text;
      continue;
    }
    const block = build(entry, entry.kind === "end" && !entry.is_error && blocks.findLast((each) => each.kind === "said")?.text === text ? { text: "" } : {});
    if (entry.kind === "tool" && entry.tool_id) tools.set(entry.tool_id, block);
    blocks.push(block);
  }
  return blocks;
}

const build = (entry: TranscriptEntry, more: Partial<Block>): Block => ({
  key: entry.key,
  kind: entry.kind,
  text: entry.text ?? "",
  name: entry.name ?? "",
  answer: null,
  isError: Boolean(entry.is_error),
  ...more,
});

/** The one line that says what a tool was given: its command, path or question. */
export function summarize(text: string): string {
  try {
    const given = JSON.parse(text) as Record<string, unknown>;
    for (const key of ["command", "file_path", "filePath", "path", "pattern", "query", "url", "description", "prompt"]) if (typeof given[key] === "string") return firstLine(given[key] as string);
  } catch {
    // It is text, or was cut.
  }
  return firstLine(text);
}

export const firstLine = (text: string): string => text.trim().split("\n", 1)[0]!.slice(0, 200);

/** The places of blocks that contain the text, in their order. */
export function findBlocks(blocks: readonly Block[], wanted: string): number[] {
  const text = wanted.trim().toLowerCase();
  if (text === "") return [];
  return blocks.flatMap((block, index) => (`${block.name} ${block.text} ${block.answer ?? ""}`.toLowerCase().includes(text) ? [index] : []));
}

const ORDER = ["needs_you", "unattended", "failed", "running", "parked", "waiting"];

/** What needs a person first, then the ones at work the longest. */
export function sortLanes(lanes: readonly Lane[]): Lane[] {
  const place = (lane: Lane): number => {
    const found = ORDER.indexOf(lane.state ?? "");
    return found === -1 ? ORDER.length : found;
  };
  return [...lanes].sort((a, b) => place(a) - place(b) || a.created_at.localeCompare(b.created_at) || a.id.localeCompare(b.id));
}

const INTERPRETERS = new Set(["bash", "env", "node", "python", "python3", "sh", "zsh"]);

/** The name of a profile; of a command line, that of its program or script. */
export function nameAgent(profile: string): string {
  const words = profile.split(/\s+/);
  if (words.length < 2) return profile;
  const names = words.filter((word) => !word.startsWith("-")).map((word) => word.split("/").pop()!);
  return names.find((name) => !INTERPRETERS.has(name)) ?? names[0] ?? profile;
}

/** What an agent does: the tool that it is in, or its last line. */
export function describeDoing(lane: Lane): string {
  if (lane.wish === "pause") return "Ending its agent, to pause it …";
  if (lane.wish === "take") return "Ending its agent, to hand its session over …";
  if (lane.wish === "stop") return "Ending its agent …";
  if (lane.wish === "continue") return "Continues as soon as the runner starts it";
  if (lane.stage === "parked") return lane.reason ?? "waits";
  return lane.tool ?? (lane.now_doing === lane.last_line ? "thinking" : (lane.now_doing ?? ""));
}

/** The part of a patch that is about a file. */
export function patchOf(patch: string, path: string): string {
  const parts = patch.split(/^(?=diff --git )/m);
  return parts.find((part) => part.startsWith("diff --git ") && part.split("\n", 1)[0]!.endsWith(` b/${path}`)) ?? parts.find((part) => part.includes(`\n+++ b/${path}\n`)) ?? "";
}
