/** Orders what a person is to approve: of a file the path and the diff come first, as on a card. */

export interface ShownFile {
  path: string;
  diff: string | null;
  /** Everything else that is known of the file, in its order. */
  more: [string, unknown][];
}

type Values = Record<string, unknown>;

const isObject = (value: unknown): value is Values => value !== null && typeof value === "object" && !Array.isArray(value);

/** Returns the value as a file, if it has a path and something else. */
export function parseFile(value: unknown): ShownFile | null {
  if (!isObject(value) || typeof value.path !== "string" || Object.keys(value).length < 2) return null;
  const diff = typeof value.diff === "string" ? value.diff : null;
  return { path: value.path, diff, more: Object.entries(value).filter(([name]) => name !== "path" && (name !== "diff" || diff === null)) };
}

/** Returns whether the value is a list in which every entry is a file. */
export function isFileList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((each) => parseFile(each) !== null);
}

/** Returns the fields of an object, lists of files with diffs first; nothing is left out. */
export function orderFields(value: Values): [string, unknown][] {
  const hasDiffs = ([, each]: [string, unknown]) => isFileList(each) && (each as unknown[]).some((file) => parseFile(file)!.diff !== null);
  const fields = Object.entries(value);
  return [...fields.filter(hasDiffs), ...fields.filter((field) => !hasDiffs(field))];
}

export interface ShownLine {
  text: string;
  kind: "added" | "removed" | "same";
}

/** Splits a unified diff into lines with their kind, for their colour. What precedes the first hunk is its header. */
export function splitDiff(diff: string): ShownLine[] {
  const lines = diff.split("\n");
  const start = lines.findIndex((line) => line.startsWith("@@"));
  const kindOf = (line: string) => (line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same");
  return lines.map((text, index) => ({ text, kind: index < start ? "same" : kindOf(text) }));
}
