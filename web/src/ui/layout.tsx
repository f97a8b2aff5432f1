/** A list beside what is open in it, and tables; both work on a phone. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface ListDetailProps {
  label: string;
  /** Something is open: in a narrow window it takes the place of the list. */
  isOpen: boolean;
  onClose: () => void;
  list: ComponentChildren;
  detail: ComponentChildren;
  /** What is open, so that another one begins at its top. */
  openId?: string | null;
}

export function ListDetail({ label, isOpen, onClose, list, detail, openId }: ListDetailProps) {
  const pane = useRef<HTMLDivElement>(null);
  useEffect(() => pane.current?.scrollTo(0, 0), [openId]);
  return (
    <div class={isOpen ? "listdetail is-open" : "listdetail"}>
      <div class="listdetail-list" role="region" aria-label={label}>
        {list}
      </div>
      <div class="listdetail-detail" ref={pane} role="region" aria-label="Details">
        {isOpen && (
          <button type="button" class="button listdetail-back" onClick={onClose}>
            ← {label}
          </button>
        )}
        {detail}
      </div>
    </div>
  );
}

export interface Column {
  key: string;
  name: string;
  isNumber?: boolean;
  className?: string;
}

export interface TableRow {
  id: string;
  href?: string;
  cells: Record<string, ComponentChildren>;
}

/** A table whose rows become cards in a narrow window; the first column names the row. */
export function Table({ label, columns, rows }: { label: string; columns: Column[]; rows: readonly TableRow[] }) {
  return (
    <table class="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => <th scope="col" class={column.isNumber ? "is-number" : undefined}>{column.name}</th>)}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.id} data-item data-id={row.id}>
            {columns.map((column, index) => {
              const cell = row.cells[column.key];
              const classes = [column.isNumber && "is-number", column.className].filter(Boolean).join(" ") || undefined;
              if (index > 0) return <td class={classes} data-label={column.name}>{cell}</td>;
              return <th scope="row" class={classes}>{row.href ? <a href={row.href} data-main>{cell}</a> : cell}</th>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
