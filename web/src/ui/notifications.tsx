/** Where a person is told what waits for them: this device, channels, quiet hours. */

import { useState } from "preact/hooks";
import { callTool } from "../data/api";
import { me } from "../data/live";
import { findObstacle, findOwn, nameBrowser, subscribe, unsubscribe } from "../data/push";
import { useResource } from "../data/resource";
import type { Channel, NotificationsAnswer } from "../data/shapes-notify";
import { Ago, Copy, Loaded, Section } from "./parts";
import { showResult } from "./result";
import "./notifications.css";

const KINDS: Record<Channel["kind"], string> = { push: "browser", webhook: "webhook", ntfy: "ntfy", command: "command" };
const EVERY = 15_000;

export function NotificationSettings() {
  const found = useResource<NotificationsAnswer>("/notifications", null, EVERY);
  return <Loaded of={found}>{(answer) => <Shown answer={answer} reload={found.reload} />}</Loaded>;
}

/** Run an act; say what came of it, and read the settings again. */
function useActs(reload: () => void) {
  const [isBusy, setBusy] = useState(false);
  const run = async (act: () => Promise<string>) => {
    setBusy(true);
    try {
      showResult({ text: await act() });
    } catch (problem) {
      showResult({ text: describe(problem as Error), tone: "bad" });
    } finally {
      setBusy(false);
      reload();
    }
  };
  return { isBusy, run };
}

function describe(problem: Error & { body?: { suggestion?: string } }): string {
  return [problem.message, problem.body?.suggestion].filter(Boolean).join(" ");
}

const may = (action: string) => (me.value.actions ?? []).includes(action);
const isAdmin = () => me.value.scope === "admin";
const call = (tool: string, given: Record<string, unknown>) => callTool(tool, given, crypto.randomUUID());

function Shown({ answer, reload }: { answer: NotificationsAnswer; reload: () => void }) {
  return (
    <>
      <p class="faint notify-intro">
        You are told what begins to wait for you, and when a run of agents ends. Messages say how much waits and link to it; {answer.says_content ? "they contain titles and names, as you asked." : "they contain no names and no text of tasks."}
      </p>
      <Device answer={answer} reload={reload} />
      <Channels answer={answer} reload={reload} />
      {isAdmin() && may("set_notifications") && <Hours key={JSON.stringify(answer.quiet ?? null)} answer={answer} reload={reload} />}
    </>
  );
}

function Device({ answer, reload }: { answer: NotificationsAnswer; reload: () => void }) {
  const { isBusy, run } = useActs(reload);
  const own = findOwn(answer.channels);
  const obstacle = answer.can_push ? findObstacle() : "This server cannot send to browsers: install deepwork[push] there.";
  return (
    <Section title="This device">
      {own ? (
        <p class="notify-row">
          <span>This browser is told.</span>
          <button type="button" class="button" disabled={isBusy} onClick={() => void run(async () => (await unsubscribe(own), "This browser is not told any more."))}>
            Stop telling it
          </button>
        </p>
      ) : obstacle ? (
        <p>{obstacle}</p>
      ) : may("add_browser") ? (
        <p class="notify-row">
          <span>This browser says nothing while the page is closed.</span>
          <button type="button" class="button primary" disabled={isBusy} onClick={() => void run(async () => `${(await subscribe(nameBrowser(navigator.userAgent))).name} is told from now on.`)}>
            {isBusy ? "Asking the browser …" : "Tell this device"}
          </button>
        </p>
      ) : (
        <p>With this token you can look, and change nothing.</p>
      )}
    </Section>
  );
}

function Channels({ answer, reload }: { answer: NotificationsAnswer; reload: () => void }) {
  const { isBusy, run } = useActs(reload);
  const test = (id: string) =>
    run(async () => {
      const { channels } = (await call("test_channels", { channel_id: id })) as { channels: { name: string; is_told: boolean; problem?: string }[] };
      const [one] = channels;
      if (!one?.is_told) throw new Error(`${one?.name ?? "It"} did not get the test. ${one?.problem ?? ""}`);
      return `A test was sent to ${one.name}.`;
    });
  return (
    <Section title="Channels" count={answer.channels.length}>
      {answer.channels.length === 0 && <p>None yet.</p>}
      <ul class="cards" aria-label="Channels">
        {answer.channels.map((each) => (
          <li class="card" key={each.id} data-channel={each.id}>
            <div class="card-head">
              <span class="kind">{KINDS[each.kind]}</span>
              <h3>{each.name}</h3>
              <div class="card-actions actions">
                {may("test_channels") && (
                  <button type="button" class="button tiny" disabled={isBusy} aria-label={`Test ${each.name}`} onClick={() => void test(each.id)}>
                    Test
                  </button>
                )}
                {may("remove_channel") && (isAdmin() || each.person === me.value.name) && (
                  <button type="button" class="button tiny" disabled={isBusy} aria-label={`Remove ${each.name}`} onClick={() => void run(async () => (await call("remove_channel", { channel_id: each.id }), `${each.name} was removed.`))}>
                    Remove
                  </button>
                )}
              </div>
            </div>
            <p class="faint">
              {each.to}
              {each.person && ` · ${each.person}`} · {each.told_at ? <>told <Ago at={each.told_at} /></> : "not told yet"}
            </p>
            {each.problem && (
              <p class="form-error">
                Fails since <Ago at={each.failing_since} />: {each.problem} {each.next_at && <>It is tried again <Ago at={each.next_at} />.</>}
              </p>
            )}
          </li>
        ))}
      </ul>
      {isAdmin() && may("add_channel") && <AddChannel run={run} isBusy={isBusy} />}
      <p class="faint">
        A command is added at a shell: <code>deepwork notify add command -- PROGRAM</code>.
      </p>
    </Section>
  );
}

function AddChannel({ run, isBusy }: { run: (act: () => Promise<string>) => Promise<void>; isBusy: boolean }) {
  const [kind, setKind] = useState<"webhook" | "ntfy">("ntfy");
  const [secret, setSecret] = useState("");
  const add = (form: HTMLFormElement) =>
    run(async () => {
      const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]).filter(([, value]) => value));
      const added = (await call("add_channel", { ...given, kind })) as { channel: Channel; secret?: string };
      setSecret(added.secret ?? "");
      form.reset();
      return `${added.channel.name} was added.`;
    });
  return (
    <>
      <form class="notify-add" aria-label="Add a channel" onSubmit={(event) => { event.preventDefault(); void add(event.currentTarget); }}>
        <label>
          <span>Kind</span>
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value as "webhook" | "ntfy")}>
            <option value="ntfy">ntfy topic</option>
            <option value="webhook">Webhook</option>
          </select>
        </label>
        <label class="notify-wide">
          <span>Address</span>
          <input type="url" name="url" required placeholder={kind === "ntfy" ? "https://ntfy.sh/TOPIC" : "https://HOST/PATH"} autoComplete="off" />
        </label>
        {kind === "ntfy" && (
          <label>
            <span>Token, if it needs one</span>
            <input type="password" name="token" autoComplete="off" />
          </label>
        )}
        <button type="submit" class="button" disabled={isBusy}>
          Add
        </button>
      </form>
      {secret && (
        <p class="notify-row" role="status">
          <span>
            The webhook is signed with <code>{secret}</code>. It is not shown again.
          </span>
          <Copy text={secret} label="Copy" small />
        </p>
      )}
    </>
  );
}

function Hours({ answer, reload }: { answer: NotificationsAnswer; reload: () => void }) {
  const { isBusy, run } = useActs(reload);
  const [isOn, setOn] = useState(Boolean(answer.quiet));
  const zone = answer.quiet ? (answer.quiet.zone ?? "") : Intl.DateTimeFormat().resolvedOptions().timeZone;
  const save = (form: HTMLFormElement) =>
    run(async () => {
      const given = new FormData(form);
      const hours = isOn ? { quiet_begins: given.get("begins"), quiet_ends: given.get("ends"), zone: given.get("zone") } : { quiet_begins: "", quiet_ends: "" };
      await call("set_notifications", { ...hours, says_content: given.get("content") === "on" });
      return "Saved.";
    });
  return (
    <Section title="When and what">
      <form class="notify-hours" aria-label="When and what" onSubmit={(event) => { event.preventDefault(); void save(event.currentTarget); }}>
        <label class="check">
          <input type="checkbox" checked={isOn} onChange={(event) => setOn(event.currentTarget.checked)} /> Quiet hours: what still waits at their end is one message
        </label>
        {isOn && (
          <div class="notify-add">
            <label>
              <span>From</span>
              <input type="time" name="begins" required defaultValue={answer.quiet?.begins ?? "22:00"} />
            </label>
            <label>
              <span>To</span>
              <input type="time" name="ends" required defaultValue={answer.quiet?.ends ?? "07:00"} />
            </label>
            <label>
              <span>Time zone</span>
              <input name="zone" defaultValue={zone} placeholder="of the server" />
            </label>
          </div>
        )}
        <label class="check">
          <input type="checkbox" name="content" defaultChecked={answer.says_content} /> Send titles and names, too: they are text of tasks
        </label>
        <div>
          <button type="submit" class="button" disabled={isBusy}>
            Save
          </button>
        </div>
      </form>
    </Section>
  );
}
