/** Keeps what did not change: equal parts of a new value are those of the old one, so that views of them need not redraw. */

/** Larger lists are taken as they are: comparing them costs more than drawing what is visible. */
const LARGEST = 2000;

export function share<T>(old: unknown, fresh: T): T {
  if (Object.is(old, fresh)) return fresh;
  if (Array.isArray(old) && Array.isArray(fresh)) {
    if (fresh.length > LARGEST) return fresh;
    const byId = new Map(old.filter(hasId).map((each) => [each.id, each]));
    // A thing with an id may have moved in its list.
    const next = fresh.map((each, index) => share(hasId(each) ? byId.get(each.id) : old[index], each));
    return old.length === next.length && next.every((each, index) => each === old[index]) ? (old as T) : (next as T);
  }
  if (!isPlain(old) || !isPlain(fresh)) return fresh;
  const names = Object.keys(fresh);
  const next = Object.fromEntries(names.map((name) => [name, share(old[name], fresh[name])]));
  return names.length === Object.keys(old).length && names.every((name) => name in old && next[name] === old[name]) ? (old as T) : (next as T);
}

const isPlain = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

const hasId = (value: unknown): value is { id: string } => isPlain(value) && typeof value.id === "string";
