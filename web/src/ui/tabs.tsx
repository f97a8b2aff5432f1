/** Tabs; the URL holds the selected one. */

import { useEffect, useRef } from "preact/hooks";
import { go, query, withQuery } from "../router";

export interface Tab {
  key: string;
  name: string;
  count?: number | null;
}

export function Tabs({ tabs, current, label, parameter = "tab", panel = "panel" }: { tabs: Tab[]; current: string; label: string; parameter?: string; panel?: string }) {
  const box = useRef<HTMLDivElement>(null);
  // In a narrow window the selected tab may be outside the visible area.
  useEffect(() => {
    const bar = box.current;
    const tab = bar?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (bar && tab) bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
  }, [current]);
  const to = (key: string) => withQuery({ [parameter]: key, q: null, event: null });
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.key === current);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    go(to(next.key));
    box.current?.querySelector<HTMLElement>(`[data-tab="${next.key}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={box} onKeyDown={onKeyDown} data-tabs={tabs.map((tab) => tab.key).join(",")} data-current={current} data-parameter={parameter} data-keeps-scroll>
      {tabs.map((tab) => (
        <a
          role="tab"
          id={`tab-${tab.key}`}
          aria-controls={panel}
          href={to(tab.key)}
          aria-selected={tab.key === current}
          tabIndex={tab.key === current ? 0 : -1}
          data-tab={tab.key}
        >
          {tab.name}
          {tab.count != null && tab.count > 0 && <span class="count">{tab.count.toLocaleString()}</span>}
        </a>
      ))}
    </div>
  );
}

/** Goes to the previous or next tab, on `[` and `]`. */
export function stepTab(step: number): void {
  const bar = document.querySelector<HTMLElement>("[data-tabs]");
  if (!bar) return;
  const keys = bar.dataset.tabs!.split(",");
  const at = keys.indexOf(bar.dataset.current!);
  const next = keys[(at + step + keys.length) % keys.length]!;
  void query.value;
  go(withQuery({ [bar.dataset.parameter!]: next, q: null, event: null }));
}
