/** What the review page computes: the files of a patch, the places of comments, and words for what the server says in codes. */

import type { Comment, ReviewEntry, SentBack, Weakened } from "../data/shapes-review";
import type { DiffLine, Hunk } from "./diff";

/** Splits a patch by file. Lines of files have a sign before them, so none of them can begin a file. */
export function splitPatch(patch: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of patch.split(/^(?=diff --git )/m)) {
    const name = findName(part);
    if (name) found.set(name, part);
  }
  return found;
}

function findName(part: string): string | null {
  const head = part.split(/^@@ /m, 1)[0]!;
  const added = /^\+\+\+ (.*)$/m.exec(head)?.[1];
  const removed = /^--- (.*)$/m.exec(head)?.[1];
  for (const name of [added, removed]) if (name && name !== "/dev/null") return unquote(name.replace(/\t$/, "")).replace(/^[ab]\//, "");
  // Nothing but a mode or a name changed, or the file is binary.
  const both = /^diff --git (?:"?a\/.*"?) ("?b\/.*"?)$/m.exec(head)?.[1];
  return both ? unquote(both).replace(/^b\//, "") : null;
}

/** Git quotes names as C does, with the bytes of other letters in octal. */
function unquote(name: string): string {
  if (!name.startsWith('"')) return name;
  const bytes: number[] = [];
  const text = name.slice(1, -1);
  const signs: Record<string, number> = { n: 10, t: 9, r: 13, a: 7, b: 8, f: 12, v: 11 };
  for (let at = 0; at < text.length; at++) {
    const octal = /^\\([0-7]{3})/.exec(text.slice(at, at + 4));
    if (octal) {
      bytes.push(parseInt(octal[1]!, 8));
      at += 3;
    } else if (text[at] === "\\") {
      at += 1;
      bytes.push(signs[text[at]!] ?? text.charCodeAt(at));
    } else bytes.push(...new TextEncoder().encode(text[at]));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

export const keyOf = (side: "old" | "new", line: number): string => `${side}:${line}`;

/** The place at which a person comments on a line of a diff; null for a note of git. */
export function placeOf(line: DiffLine): { side: "old" | "new"; line: number } | null {
  if (line.kind === "removed" && line.old !== null) return { side: "old", line: line.old };
  return line.new === null ? null : { side: "new", line: line.new };
}

/**
 * Puts the comments on a file to its lines, by side and number. A line that moved keeps its comments if its text is
 * there once; what is not in the diff any more is `gone`.
 */
export function placeComments(comments: readonly Comment[], hunks: readonly Hunk[]): { at: Map<string, Comment[]>; gone: Comment[] } {
  const texts = new Map<string, string>();
  const byText = new Map<string, string[]>();
  for (const hunk of hunks) {
    for (const line of hunk.lines) {
      for (const [side, number] of [["old", line.kind === "added" ? null : line.old], ["new", line.kind === "removed" ? null : line.new]] as const) {
        if (number === null) continue;
        const key = keyOf(side, number);
        texts.set(key, line.text);
        const name = `${side} ${line.text}`;
        byText.set(name, [...(byText.get(name) ?? []), key]);
      }
    }
  }
  const at = new Map<string, Comment[]>();
  const gone: Comment[] = [];
  for (const comment of comments) {
    const own = keyOf(comment.side, comment.line);
    const same = byText.get(`${comment.side} ${comment.line_text}`) ?? [];
    const key = texts.get(own) === comment.line_text ? own : same.length === 1 ? same[0]! : null;
    if (key === null) gone.push(comment);
    else at.set(key, [...(at.get(key) ?? []), comment]);
  }
  return { at, gone };
}

const WEAK_WORDS: Record<string, [one: string, more: string]> = {
  test_file_deleted: ["A file of tests was deleted", "A file of tests was deleted, with # tests"],
  tests_deleted: ["A test was deleted", "# tests were deleted"],
  tests_replaced: ["A test has another name now, or is another one", "# tests have other names now, or are others"],
  tests_skipped: ["A test is skipped or expected to fail", "# lines skip tests or expect them to fail"],
  others_left_out: ["Only one test runs; those beside it do not", "# tests run alone; those beside them do not"],
  assertions_removed: ["One assertion fewer", "# assertions fewer"],
  always_true: ["An assertion that cannot fail", "# assertions that cannot fail"],
  guarded_file: ["It decides whether checks pass, and was changed", "It decides whether checks pass, and was changed"],
};

/** One sentence about what weakens tests in a file. */
export function describeWeakening(found: Weakened): string {
  const [one, more] = WEAK_WORDS[found.kind] ?? [found.kind.replaceAll("_", " "), found.kind.replaceAll("_", " ")];
  return found.count === 1 ? one : more.replace("#", found.count.toLocaleString());
}

const RISK_WORDS: Record<string, string> = {
  weakened_tests: "weakens tests",
  not_searched: "too large to be searched for weakened tests",
  large: "large",
  binary: "binary files",
  no_checks: "no checks",
  checks: "a check did not pass",
  comments: "open comments",
  sent_back: "was sent back before",
  unknown: "its changes are not known",
};

export const describeRisks = (risks: readonly string[]): string => risks.map((each) => RISK_WORDS[each] ?? each.replaceAll("_", " ")).join(", ");

export const isLowRisk = (entry: ReviewEntry): boolean => entry.risks.length === 0;

const FINE = ["passed", "flaky"];

/** The checks of an entry in three numbers. */
export function countChecks(entry: ReviewEntry): { passed: number; failed: number; open: number } {
  const passed = entry.checks.filter((each) => FINE.includes(each.verdict ?? "") || each.waived_by).length;
  const open = entry.checks.filter((each) => !each.verdict).length;
  return { passed, failed: entry.checks.length - passed - open, open };
}

const REACHES: Record<string, string> = {
  next_call: "its agent hears it after the tool call that it is in",
  next_start: "it opens the next start of the same session",
  next_agent: "it opens the prompt of the next agent",
};

/** What became of words that were sent. */
export function describeSent(name: string, sent: SentBack): string {
  if (!sent.reaches) return `Kept: your comment on ${name} goes with the next send back.`;
  const who = sent.reopened ? `Sent back: ${name}` : `Told the agent of ${name}`;
  return `${who}; ${sent.next ? `no run works on it: start one with ${sent.next}` : (REACHES[sent.reaches] ?? sent.reaches)}.`;
}
