/** Parses a unified diff into hunks and lines, and marks the changed words within a line. */

export type LineKind = "same" | "added" | "removed" | "note";

export interface DiffLine {
  kind: LineKind;
  text: string;
  old: number | null;
  new: number | null;
  /** The text in parts, with the changed ones marked; only if the line has a counterpart. */
  parts?: Part[];
}

export interface Part {
  text: string;
  isChanged: boolean;
}

export interface Hunk {
  heading: string;
  lines: DiffLine[];
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;

export function hunksOf(diff: string): Hunk[] {
  const hunks: Hunk[] = [];
  let current: Hunk | null = null;
  let oldAt = 0;
  let newAt = 0;
  const lines = diff.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const line of lines) {
    const start = HUNK.exec(line);
    if (start) {
      oldAt = Number(start[1]);
      newAt = Number(start[2]);
      current = { heading: start[3]!.trim(), lines: [] };
      hunks.push(current);
    } else if (current) {
      const text = line.slice(1);
      if (line.startsWith("+")) current.lines.push({ kind: "added", text, old: null, new: newAt++ });
      else if (line.startsWith("-")) current.lines.push({ kind: "removed", text, old: oldAt++, new: null });
      else if (line.startsWith("\\")) current.lines.push({ kind: "note", text: line.slice(2), old: null, new: null });
      else current.lines.push({ kind: "same", text, old: oldAt++, new: newAt++ });
    }
  }
  return hunks;
}

export interface Pair {
  left: DiffLine | null;
  right: DiffLine | null;
}

/** Pairs old and new lines: removed lines are paired with the added lines that follow them. */
export function pairs(hunk: Hunk): Pair[] {
  const found: Pair[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) found.push({ left: removed[i] ?? null, right: added[i] ?? null });
    removed = [];
    added = [];
  };
  for (const line of hunk.lines) {
    if (line.kind === "removed") {
      if (added.length) flush();
      removed.push(line);
    } else if (line.kind === "added") added.push(line);
    else {
      flush();
      found.push({ left: line, right: line });
    }
  }
  flush();
  return found;
}

const LONGEST_LINE = 400;

/** Marks the changed words of a hunk; with `ignoreSpace`, lines that differ only in whitespace count as unchanged. */
export function refineHunk(hunk: Hunk, ignoreSpace: boolean): Hunk {
  const replaced = new Map<DiffLine, DiffLine | null>();
  for (const { left, right } of pairs(hunk)) {
    if (!left || !right || left === right) continue;
    if (ignoreSpace && left.text.replace(/\s+/g, "") === right.text.replace(/\s+/g, "")) {
      replaced.set(left, null);
      replaced.set(right, { kind: "same", text: right.text, old: left.old, new: right.new });
    } else if (left.text.length < LONGEST_LINE && right.text.length < LONGEST_LINE) {
      const [a, b] = words(left.text, right.text);
      if (a && b) {
        replaced.set(left, { ...left, parts: a });
        replaced.set(right, { ...right, parts: b });
      }
    }
  }
  return { heading: hunk.heading, lines: hunk.lines.flatMap((line) => (replaced.has(line) ? (replaced.get(line) ?? []) : line)) };
}

/** Splits both lines into parts; returns nulls if they have too little in common to be one changed line. */
export function words(before: string, after: string): [Part[], Part[]] | [null, null] {
  const a = before.match(/\w+|\s+|[^\w\s]/g) ?? [];
  const b = after.match(/\w+|\s+|[^\w\s]/g) ?? [];
  const common = longestCommon(a, b);
  const kept = common.reduce((sum, [i]) => sum + a[i]!.trim().length, 0);
  const longest = Math.max(before.replace(/\s/g, "").length, after.replace(/\s/g, "").length);
  if (kept * 3 < longest) return [null, null];
  return [markChanged(a, new Set(common.map(([i]) => i))), markChanged(b, new Set(common.map(([, j]) => j)))];
}

function longestCommon(a: string[], b: string[]): [number, number][] {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!);
  const found: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) found.push([i++, j++]);
    else if (table[(i + 1) * width + j]! >= table[i * width + j + 1]!) i++;
    else j++;
  }
  return found;
}

function markChanged(tokens: string[], kept: Set<number>): Part[] {
  const parts: Part[] = [];
  tokens.forEach((text, index) => {
    const isChanged = !kept.has(index);
    const last = parts[parts.length - 1];
    if (last && last.isChanged === isChanged) last.text += text;
    else parts.push({ text, isChanged });
  });
  return parts;
}

const LOCKS = /(^|\/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|uv\.lock|poetry\.lock|Cargo\.lock|Gemfile\.lock|composer\.lock|go\.sum|.*\.min\.(js|css)|.*\.map)$/;
const MANY_LINES = 400;

/** Returns why a file's diff is folded at first; null if it is shown immediately. */
export function getFoldReason(file: { path: string; added?: number | null; removed?: number | null; is_binary?: boolean | null }): string | null {
  if (file.is_binary) return "Binary file";
  if (LOCKS.test(file.path)) return "Generated file";
  const lines = (file.added ?? 0) + (file.removed ?? 0);
  return lines > MANY_LINES ? `${lines.toLocaleString()} lines` : null;
}
