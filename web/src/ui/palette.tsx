/** Everything by name: pages, runs, tasks and agents to go to, and what can be done with what is in focus. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { begin, getSubjects, labelOf } from "../acts";
import { read } from "../data/api";
import type { RunRef } from "../data/shapes";
import { isHelpOpen, isPaletteOpen, listActs } from "../keys";
import { hasShortcuts } from "../preferences";
import { go, runAddress, taskAddress } from "../router";
import { ENTRIES } from "../routes";
import { reveal } from "../view/reveal";
import { matches } from "../view/palette";
import { Dialog } from "./dialog";
import { humanize } from "./parts";

interface Found {
  kind: string;
  id: string;
  title: string;
  excerpt?: string | null;
  run?: RunRef | null;
}

interface Item {
  kind: string;
  title: string;
  more?: string;
  key?: string;
  pick: () => void;
}

const PAUSE = 150;
const SHOWN = 20;

export function Palette() {
  const [typed, setTyped] = useState("");
  const [found, setFound] = useState<{ of: string; items: Item[]; error?: string }>({ of: "", items: [] });
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const words = typed.trim();
  const local = useMemo(() => listLocal(), []);
  const items = [...local.filter((each) => matches(words, `${each.title} ${each.more ?? ""}`)), ...(words.length >= 2 ? found.items : [])].slice(0, 40);
  const isSearching = words.length >= 2 && found.of !== words;

  useEffect(() => {
    if (words.length < 2) return;
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const { data } = await read<{ results: Found[] }>(`/search?q=${encodeURIComponent(words)}`, control.signal);
        setFound({ of: words, items: data.results.slice(0, SHOWN).map(toItem) });
      } catch (problem) {
        if (!control.signal.aborted) setFound({ of: words, items: [], error: (problem as Error).message });
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [words]);
  useEffect(() => setAt(0), [words]);
  useEffect(() => list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [at, items.length]);

  const close = () => (isPaletteOpen.value = false);
  const pick = (item: Item | undefined) => {
    if (!item) return;
    close();
    // After the dialog has given the focus back.
    setTimeout(item.pick);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && items.length) setAt((at + step + items.length) % items.length);
    else if (event.key === "Enter" && !event.isComposing) pick(items[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search or do" onClose={close} wide>
      <input
        type="text"
        autoComplete="off"
        spellcheck={false}
        autoFocus
        placeholder="A page, run, task, agent, or what to do"
        aria-label="A page, run, task, agent, or what to do"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-items"
        aria-autocomplete="list"
        aria-activedescendant={items.length ? `palette-${Math.min(at, items.length - 1)}` : undefined}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-items" class="palette-items" role="listbox" aria-label="Results" ref={list}>
        {items.map((item, index) => (
          <li id={`palette-${index}`} role="option" aria-selected={index === Math.min(at, items.length - 1)} onPointerMove={() => setAt(index)} onClick={() => pick(item)}>
            <span class="palette-kind faint">{item.kind}</span>
            <span class="palette-title">
              {reveal(item.title)}
              {item.more && <span class="faint"> {reveal(item.more)}</span>}
            </span>
            {item.key && hasShortcuts.value && <kbd>{item.key}</kbd>}
          </li>
        ))}
      </ul>
      <p class="faint palette-note" role="status">
        {found.error && found.of === words ? found.error : isSearching ? "Searching …" : items.length === 0 ? "Nothing found" : ""}
      </p>
    </Dialog>
  );
}

/** What needs no search: the acts that apply now, and the pages. */
function listLocal(): Item[] {
  const subjects = getSubjects();
  const about = subjects.length > 1 ? `${subjects.length} items` : (subjects[0]?.title ?? "");
  const acts = listActs().map((act): Item => ({ kind: "do", title: labelOf(act, subjects[0]!), more: about, key: act.key, pick: () => begin(act, subjects) }));
  const pages = ENTRIES.map((entry): Item => ({ kind: "page", title: entry.name, key: `g ${entry.key}`, pick: () => go(entry.path) }));
  const places = PLACES.map(([title, to]): Item => ({ kind: "page", title, pick: () => go(to) }));
  return [...acts, ...pages, ...places, { kind: "help", title: "Keyboard shortcuts", key: "?", pick: () => (isHelpOpen.value = true) }];
}

/** Views of pages that somebody may look for by name. */
const PLACES: [string, string][] = [
  ["Decisions", "/history?show=decisions"],
  ["Problems", "/history?show=problems"],
  ["Approvals", "/history?show=approvals"],
  ["Plans", "/runs?kind=plan"],
  ["Jobs", "/runs?kind=job"],
  ["Why code exists", "/history?show=why"],
  ["Passkeys and passphrase", "/settings?show=credentials"],
];

function toItem(found: Found): Item {
  const run = found.run && found.run.id !== found.id ? found.run.name : "";
  return { kind: humanize(found.kind), title: found.title, more: run, pick: () => go(addressOf(found)) };
}

function addressOf(found: Found): string {
  if (found.kind.includes("task") || found.kind === "step" || found.id.includes("/")) return taskAddress(found.id);
  if (found.kind === "agent") return `/agents?agent=${encodeURIComponent(found.id)}`;
  if (found.run && ["decision", "issue"].includes(found.kind)) return runAddress(found.run.id, { tab: `${found.kind}s` });
  return runAddress(found.run?.id ?? found.id);
}
