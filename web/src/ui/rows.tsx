/** A virtual list: a small pool of row elements moves with the scroll position. One Tab stop; arrow keys move within. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { scrollToShow, slot, windowOf } from "../view/window";

export interface RowInfo {
  key: string;
  level?: number;
  isOpen?: boolean | null;
  place?: number;
  places?: number;
}

export interface RowsProps<T extends RowInfo> {
  items: readonly T[];
  label: string;
  rowHeight: number;
  isTree?: boolean;
  /** The header row; its cells name the columns. */
  head?: ComponentChildren;
  columns: number;
  className?: string;
  selected?: string | null;
  children: (item: T) => ComponentChildren;
  onSelect?: (item: T) => void;
  onFold?: (item: T, isOpen: boolean) => void;
  /** Stay scrolled to the end as rows arrive. */
  follows?: boolean;
  onScrolled?: (atEnd: boolean, atStart: boolean) => void;
  above?: ComponentChildren;
}

export function Rows<T extends RowInfo>(props: RowsProps<T>) {
  const { items, rowHeight } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ scrolled: 0, height: 600 });
  const [active, setActive] = useState<string | null>(null);
  const index = Math.max(0, items.findIndex((item) => item.key === (active ?? props.selected)));
  const headHeight = props.head ? 32 : 0;

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => setView((old) => (old.height === element.clientHeight ? old : { ...old, height: element.clientHeight }));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (props.follows) box.current!.scrollTop = box.current!.scrollHeight;
  }, [items, props.follows, view.height]);

  // Scroll the row that the URL selects into view, once it exists.
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (!props.selected || shown.current === props.selected) return;
    const at = items.findIndex((item) => item.key === props.selected);
    if (at === -1) return;
    shown.current = props.selected;
    setActive(props.selected);
    reveal(at);
  }, [props.selected, items.length > 0]);

  function reveal(at: number): void {
    const element = box.current!;
    const to = scrollToShow(at, element.scrollTop, element.clientHeight - headHeight, rowHeight);
    if (to !== null) element.scrollTop = to;
  }

  function move(to: number, focus = true): void {
    const at = Math.max(0, Math.min(items.length - 1, to));
    const item = items[at];
    if (!item) return;
    setActive(item.key);
    reveal(at);
    if (focus) requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-row="${at}"]`)?.focus({ preventScroll: true }));
  }

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (target.closest("input, textarea, select")) return;
    const item = items[index];
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const steps: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: items.length - 1 };
    const to = steps[event.key];
    if (to !== undefined) move(to);
    else if (event.key === "ArrowRight" && item) {
      if (item.isOpen === false) props.onFold?.(item, true);
      else if (item.isOpen) move(index + 1);
      else return;
    } else if (event.key === "ArrowLeft" && item) {
      if (item.isOpen) props.onFold?.(item, false);
      else if ((item.level ?? 1) > 1) {
        let parent = index - 1;
        while (parent > 0 && (items[parent]!.level ?? 1) >= (item.level ?? 1)) parent--;
        move(parent);
      } else return;
    } else if ((event.key === "Enter" || event.key === " ") && item && target.dataset.row !== undefined) {
      if (item.isOpen != null && !props.onSelect) props.onFold?.(item, !item.isOpen);
      else props.onSelect?.(item);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const { first, last, size } = windowOf(view.scrolled, view.height, rowHeight, items.length);
  const drawn: JSX.Element[] = [];
  const pool: [number, number][] = [];
  for (let at = first; at < last; at++) pool.push([slot(at, size), at]);
  // In pool order, so that scrolling moves elements instead of creating them.
  pool.sort((a, b) => a[0] - b[0]);
  for (const [place, at] of pool) {
    const item = items[at]!;
    drawn.push(
      <div
        key={place}
        class={`row${item.key === props.selected ? " is-selected" : ""}`}
        role="row"
        data-row={at}
        data-key={item.key}
        aria-rowindex={at + (props.head ? 2 : 1)}
        aria-level={props.isTree ? (item.level ?? 1) : undefined}
        aria-expanded={props.isTree && item.isOpen != null ? item.isOpen : undefined}
        aria-posinset={props.isTree ? item.place : undefined}
        aria-setsize={props.isTree ? item.places : undefined}
        aria-selected={props.onSelect ? item.key === props.selected : undefined}
        tabIndex={at === index ? 0 : -1}
        style={{ transform: `translateY(${at * rowHeight}px)`, height: `${rowHeight}px` }}
        onFocus={() => active !== item.key && setActive(item.key)}
        onClick={(event) => {
          if ((event.target as HTMLElement).closest("a, button, input")) return;
          setActive(item.key);
          props.onSelect?.(item);
        }}
      >
        {props.children(item)}
      </div>,
    );
  }

  return (
    <div
      ref={box}
      class={`rows ${props.className ?? ""}`}
      role={props.isTree ? "treegrid" : "grid"}
      aria-label={props.label}
      aria-rowcount={items.length + (props.head ? 1 : 0)}
      aria-colcount={props.columns}
      aria-multiselectable={props.onSelect ? false : undefined}
      data-list
      style={{ height: `min(var(--rows-height), ${items.length * rowHeight + headHeight + 2}px)` }}
      onKeyDown={onKeyDown}
      onScroll={(event) => {
        const element = event.currentTarget;
        setView({ scrolled: element.scrollTop, height: element.clientHeight });
        props.onScrolled?.(element.scrollTop + element.clientHeight >= element.scrollHeight - 4, element.scrollTop < rowHeight * 4);
      }}
    >
      {props.head && (
        <div class="row rows-head" role="row" aria-rowindex={1}>
          {props.head}
        </div>
      )}
      {props.above}
      <div class="rows-room" role="rowgroup" style={{ height: `${items.length * rowHeight}px` }}>
        {drawn}
      </div>
    </div>
  );
}
