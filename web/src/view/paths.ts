/** Changed files as a tree of folders; a folder that contains only one folder is merged with it. */

import type { ChangedFile } from "../data/shapes";

export type PathRow =
  | { kind: "folder"; key: string; name: string; level: number; isOpen: boolean; files: number; place: number; places: number }
  | { kind: "file"; key: string; name: string; level: number; isOpen: null; file: ChangedFile; place: number; places: number };

interface Folder {
  folders: Map<string, Folder>;
  files: ChangedFile[];
  size: number;
}

export function pathRows(files: readonly ChangedFile[], folded: ReadonlySet<string>): PathRow[] {
  const root: Folder = { folders: new Map(), files: [], size: 0 };
  for (const file of files) {
    const parts = file.path.split("/");
    let at = root;
    at.size++;
    for (const part of parts.slice(0, -1)) {
      let next = at.folders.get(part);
      if (!next) at.folders.set(part, (next = { folders: new Map(), files: [], size: 0 }));
      at = next;
      at.size++;
    }
    at.files.push(file);
  }
  const rows: PathRow[] = [];
  walk(root, "", 1);
  return rows;

  function walk(folder: Folder, prefix: string, level: number): void {
    const places = folder.folders.size + folder.files.length;
    let place = 0;
    for (const [first, given] of [...folder.folders].sort((a, b) => a[0].localeCompare(b[0]))) {
      let name = first;
      let inner = given;
      while (inner.files.length === 0 && inner.folders.size === 1) {
        const [[more, deeper]] = inner.folders as unknown as [[string, Folder]];
        name += `/${more}`;
        inner = deeper;
      }
      const key = `${prefix}${name}/`;
      const isOpen = !folded.has(key);
      rows.push({ kind: "folder", key, name, level, isOpen, files: inner.size, place: ++place, places });
      if (isOpen) walk(inner, key, level + 1);
    }
    for (const file of [...folder.files].sort((a, b) => a.path.localeCompare(b.path))) {
      rows.push({ kind: "file", key: file.path, name: file.path.split("/").pop()!, level, isOpen: null, file, place: ++place, places });
    }
  }
}
