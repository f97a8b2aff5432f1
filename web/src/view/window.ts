/** Which rows of a long list are in sight, and which element of the pool each of them gets. */

export interface Window {
  first: number;
  last: number;
  /** How many elements the pool has: enough for the rows in sight and some beyond. */
  size: number;
}

const BEYOND = 6;

export function windowOf(scrolled: number, height: number, rowHeight: number, rows: number): Window {
  const size = Math.min(rows, Math.ceil(height / rowHeight) + 2 * BEYOND + 1);
  const wanted = Math.floor(scrolled / rowHeight) - BEYOND;
  const first = Math.max(0, Math.min(wanted, rows - size));
  return { first, last: first + size, size };
}

/** The element of a row: it keeps it for as long as it is in sight, whatever scrolls in above or below. */
export const slot = (row: number, size: number): number => (size === 0 ? 0 : row % size);

/** Where to scroll to so that a row is in sight; null if it is. */
export function scrollToShow(row: number, scrolled: number, height: number, rowHeight: number): number | null {
  const top = row * rowHeight;
  if (top < scrolled) return top;
  if (top + rowHeight > scrolled + height) return top + rowHeight - height;
  return null;
}
