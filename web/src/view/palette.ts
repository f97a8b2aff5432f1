/** Whether a name is meant by what somebody typed: every word begins a word of the name, or its letters occur in order. */
export function matches(typed: string, name: string): boolean {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const text = name.toLowerCase();
  if (words.every((word) => text.includes(word))) return true;
  return words.length === 1 && words[0]!.length > 2 && occursInOrder(words[0]!, text.split(/[^\p{L}\p{N}]+/u).map((word) => word[0] ?? "").join(""));
}

/** The first letters of words, as "wce" for "Why code exists". */
function occursInOrder(letters: string, initials: string): boolean {
  let at = 0;
  for (const letter of letters) {
    at = initials.indexOf(letter, at) + 1;
    if (at === 0) return false;
  }
  return true;
}
