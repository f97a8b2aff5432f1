/** Computes which rows of a long list are visible, and which pool element each one gets. */

export interface Window {
  first: number;
  last: number;
  /** The number of pool elements: enough for the visible rows and some beyond. */
  size: number;
}

const BEYOND = 6;

export function windowOf(scrolled: number, height: number, rowHeight: number, rows: number): Window {
  const size = Math.min(rows, Math.ceil(height / rowHeight) + 2 * BEYOND + 1);
  const wanted = Math.floor(scrolled / rowHeight) - BEYOND;
  const first = Math.max(0, Math.min(wanted, rows - size));
  return { first, last: first + size, size };
}

/** The pool element of a row. A row keeps its element while it is visible. */
export const slot = (row: number, size: number): number => (size === 0 ? 0 : row % size);

/** The scroll position that makes a row visible; null if it already is. */
export function scrollToShow(row: number, scrolled: number, height: number, rowHeight: number): number | null {
  const top = row * rowHeight;
  if (top < scrolled) return top;
  if (top + rowHeight > scrolled + height) return top + rowHeight - height;
  return null;
}
