/** The frame around every page: navigation, connection status, and the page itself. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { leaveAsking } from "./acts";
import { now, clockTime } from "./clock";
import { useHome } from "./data/home";
import { connection, lastReceived, me, nextTry, reconnectNow } from "./data/live";
import { isHelpOpen, isPaletteOpen, listKeys } from "./keys";
import { hasShortcuts, setShortcuts, setTheme, theme, type Theme } from "./preferences";
import { address, path, replace } from "./router";
import { ENTRIES, findPlace, findRedirect, subject, waiting, type PageProps, type Route } from "./routes";
import { ActDialog } from "./ui/actbar";
import { announce, Announcer } from "./ui/announce";
import { Dialog } from "./ui/dialog";
import { Empty, NoPage, Skeleton } from "./ui/parts";
import { ResultLine } from "./ui/result";
import { SinceBar } from "./ui/since-bar";
import { Palette } from "./ui/palette";

export function App() {
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <Sidebar />
      <div class="body">
        <ConnectionNotice />
        <SinceBar />
        <main id="main" tabIndex={-1}>
          <Page />
        </main>
        <ResultLine />
      </div>
      <WaitingCount />
      <ActDialog />
      <Announcer />
      {isPaletteOpen.value && <Palette />}
      {isHelpOpen.value && <Help />}
    </div>
  );
}

/** Keeps the number in the navigation and the window's title. */
function WaitingCount() {
  const home = useHome();
  useEffect(() => {
    const total = home.data?.needs_you_total;
    if (total === undefined) return;
    if (total > waiting.value && home.seq) announce(`${total} ${total === 1 ? "item needs" : "items need"} you.`);
    waiting.value = total;
  }, [home.data]);
  return null;
}

/** The pages that are loaded; null if loading failed. */
const loaded = signal<ReadonlyMap<Route, ComponentType<PageProps> | null>>(new Map());

async function load(route: Route): Promise<void> {
  let page: ComponentType<PageProps> | null = null;
  try {
    page = (await route.load()).default;
  } catch {
    // The server is not reachable, or it has another version, whose files have other names.
  }
  loaded.value = new Map(loaded.value).set(route, page);
}

function Page() {
  const at = path.value;
  const place = findPlace(at);
  const route = place?.route;
  useEffect(() => {
    const to = findRedirect(at, address.peek().split("?")[1] ?? "");
    if (to) replace(to);
    leaveAsking();
  }, [at]);
  useEffect(() => {
    if (!place?.rest) subject.value = route?.name ?? "";
  }, [route, place?.rest]);
  useEffect(() => {
    if (route && !loaded.peek().get(route)) void load(route);
  }, [route]);
  if (connection.value === "login") return <Login />;
  if (!place || !route) return findRedirect(at, "") ? null : <NoPage />;
  const Shown = loaded.value.get(route);
  if (Shown === null) return <NotLoaded />;
  if (!Shown) return <div class="page"><Skeleton rows={8} /></div>;
  // The page of a thing begins anew with another thing; a list stays while its items are opened.
  return <Shown key={ENTRIES.includes(route as (typeof ENTRIES)[number]) ? route.path : `${route.path}/${place.rest}`} rest={place.rest} />;
}

function NotLoaded() {
  return (
    <Empty title="This page could not be loaded" isPage>
      <p>The server is not reachable, or it has a newer version.</p>
      <button type="button" class="button" onClick={() => location.reload()}>
        Reload
      </button>
    </Empty>
  );
}

function Sidebar() {
  const at = path.value;
  const isAt = (to: string) => (to === "/" ? at === "/" : at === to || at.startsWith(`${to}/`) || (to === "/runs" && /^\/(tasks|landings)\//.test(at)) || (to === "/history" && at.startsWith("/approvals/")));
  return (
    <header class="side">
      <a class="brand" href="/" aria-label="deepwork, home">
        <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
          <rect width="32" height="32" rx="8" />
          <path d="M8 11h10M8 16h16M8 21h7" />
        </svg>
        <span>deepwork</span>
      </a>
      <button type="button" class="button search" aria-haspopup="dialog" aria-keyshortcuts="Control+K" onClick={() => (isPaletteOpen.value = true)}>
        <span>Search or do …</span> <kbd aria-hidden="true">Ctrl K</kbd>
      </button>
      <nav aria-label="Pages">
        <ul>
          {ENTRIES.map(({ path: to, name, key, icon, load }) => (
            <li>
              <a href={to} aria-current={isAt(to) ? "page" : undefined} title={hasShortcuts.value ? `g ${key}` : undefined} onPointerEnter={() => void load().catch(() => {})}>
                <svg class="shape" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
                  <path d={icon} />
                </svg>
                <span>{name}</span>
                {to === "/" && waiting.value > 0 && (
                  <span class="badge">
                    {waiting.value}
                    <span class="unseen"> waiting for you</span>
                  </span>
                )}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="side-foot">
        <ConnectionStatus />
        <div class="side-tools">
          <label class="theme">
            <span class="unseen">Theme</span>
            <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
              <option value="system">System</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          <button type="button" class="button tiny" onClick={() => (isHelpOpen.value = true)}>
            Keys
          </button>
        </div>
        {me.value.name && (
          <p class="faint who" title={`scope: ${me.value.scope ?? "?"}`}>
            {me.value.name}
            {me.value.scope === "read" ? " · read only" : me.value.is_person === false ? " · not a person's token" : ""}
          </p>
        )}
      </div>
    </header>
  );
}

/** The state of the connection, in one word. */
function ConnectionStatus() {
  const words = { live: "Live", connecting: "Connecting", gone: "Disconnected", failed: "Not live", offline: "Offline", login: "Signed out" };
  return (
    <p class={`light is-${connection.value}`} id="connection">
      <span class="light-dot" aria-hidden="true" />
      {words[connection.value]}
    </p>
  );
}

function ConnectionNotice() {
  const state = connection.value;
  if (state !== "gone" && state !== "failed" && state !== "offline") return null;
  const left = Math.max(0, Math.ceil((nextTry.value - now.value) / 1000));
  return (
    <div class="notice" role="status">
      <strong>{state === "offline" ? "You are offline." : state === "failed" ? "The server can no longer read what it writes." : "The server is not responding."}</strong>
      <span>
        Showing data from <time dateTime={new Date(lastReceived.value).toISOString()} title={new Date(lastReceived.value).toISOString()}>{clockTime(lastReceived.value)}</time>.{" "}
        {state === "offline" ? "Updates resume when you are back online." : left > 1 ? "Retrying soon." : "Retrying …"}
      </span>
      <button type="button" class="button tiny" onClick={reconnectNow}>
        Retry now
      </button>
    </div>
  );
}

function Login() {
  return (
    <Empty title="This browser is not signed in" isPage>
      <p>
        Open the link that deepwork printed when it started. To see it again, run <code>deepwork dashboard --open</code>.
      </p>
      <button type="button" class="button" onClick={() => location.reload()}>
        Enter a token
      </button>
    </Empty>
  );
}

function Help() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <div class="keys">
        <dl>
          {listKeys().map(([key, meaning]) => (
            <div>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <dl>
          {ENTRIES.map(({ key, name }) => (
            <div>
              <dt>
                <kbd>g {key}</kbd>
              </dt>
              <dd>{name}</dd>
            </div>
          ))}
        </dl>
      </div>
      <label class="check">
        <input type="checkbox" checked={hasShortcuts.value} onChange={(event) => setShortcuts(event.currentTarget.checked)} /> Enable single-key shortcuts
      </label>
    </Dialog>
  );
}
