/** Global search, available on every page. */

import { useEffect, useRef, useState } from "preact/hooks";
import { read } from "../data/api";
import type { RunRef } from "../data/shapes";
import { go, runAddress, taskAddress } from "../router";
import { humanize } from "./parts";

interface Found {
  kind: string;
  id: string;
  title: string;
  excerpt?: string | null;
  run?: RunRef | null;
}

const PAUSE = 180;

export function GlobalSearch() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[] | null>(null);
  const [at, setAt] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const control = new AbortController();
    if (text.trim().length < 2) {
      setFound(null);
      return;
    }
    const timer = setTimeout(async () => {
      try {
        const answer = await read<{ results: Found[] }>(`/search?q=${encodeURIComponent(text.trim())}`, control.signal);
        setFound(answer.data.results.slice(0, 12));
        setAt(0);
      } catch (error) {
        if (!(error instanceof DOMException)) setFound([]);
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);
  const leave = (to?: Found) => {
    setOpen(false);
    if (to) {
      setText("");
      go(addressOf(to));
      document.getElementById("main")?.focus();
    }
  };
  const isShown = isOpen && found !== null;
  return (
    <div
      class="search"
      ref={box}
      role="search"
      onFocusOut={(event) => {
        if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <input
        type="text"
        autoComplete="off"
        spellcheck={false}
        data-search
        placeholder="Search everything"
        aria-label="Search everything"
        role="combobox"
        aria-expanded={isShown}
        aria-controls="search-results"
        aria-autocomplete="list"
        aria-activedescendant={isShown && found.length ? `found-${at}` : undefined}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onKeyDown={(event) => {
          if (!isShown) return;
          if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
          else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
          else if (event.key === "Enter" && found[at]) leave(found[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="search-results" role="listbox" aria-label="Results" class={isShown ? "search-results" : "search-results is-closed"}>
        {isShown && found.length === 0 && <li role="option" aria-selected="false" aria-disabled="true" class="faint">No results</li>}
        {isShown &&
          found.map((each, index) => (
            <li
              id={`found-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault();
                leave(each);
              }}
            >
              <span class="faint">{humanize(each.kind)}</span> <strong>{each.title}</strong>
              {each.excerpt && <span class="excerpt">{each.excerpt}</span>}
              {each.run && <span class="faint excerpt">{each.run.name}</span>}
            </li>
          ))}
      </ul>
    </div>
  );
}

function addressOf(found: Found): string {
  if (found.kind.includes("task") || found.kind === "step" || found.id.includes("/")) return taskAddress(found.id);
  if (found.kind === "agent") return `/agents?agent=${encodeURIComponent(found.id)}`;
  if (found.run && ["decision", "issue"].includes(found.kind)) return runAddress(found.run.id, { tab: `${found.kind}s` });
  if (found.run && found.run.id !== found.id) return runAddress(found.run.id);
  return runAddress(found.id);
}
