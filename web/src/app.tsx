/** The frame around every page: navigation, connection status, and the page itself. */

import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { now, clockTime } from "./clock";
import { connection, lastReceived, me, nextTry, reconnectNow } from "./data/live";
import { LOOK_AGAIN, useResource } from "./data/resource";
import type { HomeAnswer } from "./data/shapes";
import { isHelpOpen, PAGES } from "./keys";
import { Agents } from "./pages/agents";
import { ApprovalPage, Approvals } from "./pages/approvals";
import { Blockers } from "./pages/blockers";
import { Decisions } from "./pages/decisions";
import { Health } from "./pages/health";
import { affectsHome, Home } from "./pages/home";
import { Jobs } from "./pages/jobs";
import { LandingPage } from "./pages/landings";
import { Plans } from "./pages/plans";
import { RunPage } from "./pages/run";
import { Runs } from "./pages/runs";
import { TaskPage } from "./pages/task";
import { WhyPage } from "./pages/why";
import { AgentRunPage, Work } from "./pages/work";
import { hasShortcuts, setShortcuts, setTheme, theme, type Theme } from "./preferences";
import { path, query, replace, runAddress } from "./router";
import { announce, Announcer } from "./ui/announce";
import { Dialog } from "./ui/dialog";
import { GlobalSearch } from "./ui/search";
import { Empty } from "./ui/parts";
import { parseRunPath } from "./view/addresses";

/** The subject of the page, for the window title. */
export const subject = signal("");
const waiting = signal(0);

effect(() => {
  document.title = `${waiting.value ? `(${waiting.value}) ` : ""}${subject.value ? `${subject.value} · ` : ""}deepwork`;
});

const ICONS: Record<string, string> = {
  "/": "M2.5 7.5L8 2.8l5.5 4.7M4 6.8v6.4h8V6.8",
  "/runs": "M2.5 4h11M2.5 8h7M2.5 12h9",
  "/approvals": "M8 1.6l5.4 2v4.2c0 3.2-2.2 5.4-5.4 6.6-3.2-1.2-5.4-3.4-5.4-6.6V3.6zM5.5 7.8l1.8 1.8 3.4-3.6",
  "/blockers": "M4 14V2M4 3h8l-2 3 2 3H4",
  "/decisions": "M8 2v4M8 6L3.5 10v3.5M8 6l4.5 4v3.5",
  "/agents": "M8 2.5a2.6 2.6 0 1 0 0 5.2a2.6 2.6 0 1 0 0-5.2M3 13.5c.6-2.8 2.5-4 5-4s4.4 1.2 5 4",
  "/work": "M8 1.8v2.4M8 11.8v2.4M1.8 8h2.4M11.8 8h2.4M3.6 3.6l1.7 1.7M10.7 10.7l1.7 1.7M12.4 3.6l-1.7 1.7M5.3 10.7l-1.7 1.7M8 5.6a2.4 2.4 0 1 0 0 4.8a2.4 2.4 0 1 0 0-4.8",
  "/jobs": "M3 3h10v10H3zM5.5 6.2l1.2 1.2 2-2M5.5 10h5",
  "/plans": "M2.5 4.5h3v-2h-3zM10.5 8.8h3v-2h-3zM2.5 13.2h3v-2h-3zM5.5 3.5h2v4.3h3M5.5 12.2h2V7.8",
  "/why": "M6 6.2a2 2 0 1 1 2.9 1.8c-.6.3-.9.8-.9 1.5M8 11.6v.3M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4",
  "/health": "M1.5 8.5h3l2-5 3 9 2-4h3",
};

export function App() {
  const home = useResource<HomeAnswer>("/home", affectsHome, LOOK_AGAIN);
  useEffect(() => {
    const total = home.data?.needs_you_total;
    if (total === undefined) return;
    if (total > waiting.value && waiting.value >= 0 && home.seq) announce(`${total} ${total === 1 ? "item needs" : "items need"} you.`);
    waiting.value = total;
  }, [home.data]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <Sidebar />
      <div class="body">
        <ConnectionNotice />
        <main id="main" tabIndex={-1}>
          <Page home={home} />
        </main>
      </div>
      <Announcer />
      {isHelpOpen.value && <Help />}
    </div>
  );
}

function Page({ home }: { home: ReturnType<typeof useResource<HomeAnswer>> }) {
  const at = path.value;
  const [, first = "", id] = at.split("/");
  const rest = decodeURIComponent(at.split("/").slice(2).join("/"));
  const names: Record<string, string> = { "": "Home", runs: "Runs", approvals: "Approvals", blockers: "Blockers", decisions: "Decisions", agents: "Agents", work: "Agents at work", jobs: "Jobs", plans: "Plans", why: "Why", health: "Health" };
  useEffect(() => {
    if (!rest) subject.value = names[first] ?? "";
  }, [at]);
  const run = first === "runs" ? parseRunPath(rest) : null;
  useEffect(() => {
    if (run?.tab) replace(runAddress(run.id, { ...Object.fromEntries(query.value), tab: run.tab }));
  }, [at]);
  if (connection.value === "login") return <Login />;
  switch (first) {
    case "":
      return <Home home={home} />;
    case "runs":
      if (!id) return <Runs />;
      if (run) return <RunPage key={run.id} id={run.id} />;
      break;
    case "tasks":
      if (id) return <TaskPage key={rest} id={rest} />;
      break;
    case "approvals":
      return id ? <ApprovalPage key={id} id={id} /> : <Approvals />;
    case "blockers":
      return <Blockers />;
    case "decisions":
      return <Decisions />;
    case "agents":
      return <Agents />;
    case "work":
      return id ? <AgentRunPage key={id} id={rest} /> : <Work />;
    case "jobs":
      return <Jobs />;
    case "plans":
      return <Plans />;
    case "landings":
      if (id) return <LandingPage key={id} id={id} />;
      break;
    case "why":
      return <WhyPage />;
    case "health":
      return <Health />;
  }
  return (
    <Empty title="Page not found" isPage>
      <a class="button" href="/">
        Go home
      </a>
    </Empty>
  );
}

function Sidebar() {
  const at = path.value;
  const isAt = (to: string) => (to === "/" ? at === "/" : at === to || at.startsWith(`${to}/`) || (to === "/runs" && at.startsWith("/tasks")));
  return (
    <header class="side">
      <a class="brand" href="/" aria-label="deepwork, home">
        <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
          <rect width="32" height="32" rx="8" />
          <path d="M8 11h10M8 16h16M8 21h7" />
        </svg>
        <span>deepwork</span>
      </a>
      <GlobalSearch />
      <nav aria-label="Pages">
        <ul>
          {Object.entries(PAGES).map(([key, [to, name]]) => (
            <li>
              <a href={to} aria-current={isAt(to) ? "page" : undefined} title={hasShortcuts.value ? `g ${key}` : undefined}>
                <svg class="shape" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
                  <path d={ICONS[to]} />
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
  const words = { live: "Live", connecting: "Connecting", gone: "Disconnected", offline: "Offline", login: "Signed out" };
  return (
    <p class={`light is-${connection.value}`} id="connection">
      <span class="light-dot" aria-hidden="true" />
      {words[connection.value]}
    </p>
  );
}

function ConnectionNotice() {
  const state = connection.value;
  if (state !== "gone" && state !== "offline") return null;
  const left = Math.max(0, Math.ceil((nextTry.value - now.value) / 1000));
  return (
    <div class="notice" role="status">
      <strong>{state === "offline" ? "You are offline." : "The server is not responding."}</strong>
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
    </Empty>
  );
}

const KEYS: [string, string][] = [
  ["j  k", "Next, previous in the list"],
  ["Enter", "Open the selected item"],
  ["Esc", "Close the open item"],
  ["← →", "Collapse, expand in a tree"],
  ["[  ]", "Previous tab, next tab"],
  ["/", "Search"],
  ["?", "This help"],
];

function Help() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <div class="keys">
        <dl>
          {KEYS.map(([key, meaning]) => (
            <div>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <dl>
          {Object.entries(PAGES).map(([key, [, name]]) => (
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
