/** Splits a patch of several files. */

export interface PatchFile {
  path: string;
  text: string;
  added: number;
  removed: number;
}

const HEAD = /^diff --git (?:"?a\/.*?"? )?"?b\/(.*?)"?$/;

export function splitPatch(patch: string): PatchFile[] {
  const files: PatchFile[] = [];
  let isInHunk = false;
  for (const line of patch.split("\n")) {
    const head = line.startsWith("diff --git ") ? HEAD.exec(line) : null;
    if (head) {
      files.push({ path: head[1]!, text: "", added: 0, removed: 0 });
      isInHunk = false;
      continue;
    }
    const file = files[files.length - 1];
    if (!file) continue;
    if (line.startsWith("@@")) isInHunk = true;
    if (isInHunk && line.startsWith("+")) file.added += 1;
    if (isInHunk && line.startsWith("-")) file.removed += 1;
    file.text += `${line}\n`;
  }
  return files;
}
