/** Settings: the server's health in words, how decisions are proved, and what this browser remembers. */

import { useEffect } from "preact/hooks";
import { me } from "../data/live";
import { hasShortcuts, setShortcuts, setTheme, theme, type Theme } from "../preferences";
import { query } from "../router";
import { subject } from "../routes";
import { Credentials } from "../ui/credentials";
import { Field, Fields, Section } from "../ui/parts";
import { Health } from "../ui/health";
import { NotificationSettings } from "../ui/notifications";
import { Tabs } from "../ui/tabs";

const VIEWS: Record<string, { name: string; Shown: () => preact.JSX.Element }> = {
  health: { name: "Health", Shown: Health },
  credentials: { name: "Credentials", Shown: CredentialsView },
  notifications: { name: "Notifications", Shown: NotificationSettings },
  browser: { name: "This browser", Shown: Browser },
};

export default function Settings() {
  const wanted = query.value.get("show") ?? "";
  const at = wanted in VIEWS ? wanted : "health";
  const { name, Shown } = VIEWS[at]!;
  useEffect(() => {
    subject.value = name;
  }, [at]);
  return (
    <div class="page">
      <h1>Settings</h1>
      <Tabs label="Settings" parameter="show" current={at} tabs={Object.entries(VIEWS).map(([key, each]) => ({ key, name: each.name }))} />
      <div class="tab-panel" role="tabpanel" id="panel" aria-labelledby={`tab-${at}`}>
        <Shown />
      </div>
    </div>
  );
}

function CredentialsView() {
  const { name, scope, is_person } = me.value;
  return (
    <>
      <Section title="You">
        <Fields>
          <Field name="Name">{name ?? "–"}</Field>
          <Field name="You may">{scope === "read" ? "look" : scope === "admin" ? "look, act and administer" : "look and act"}</Field>
          <Field name="Counts as a person">{is_person === false ? "no: this is not a person's token, so you cannot decide" : "yes"}</Field>
        </Fields>
      </Section>
      <Credentials />
    </>
  );
}

function Browser() {
  return (
    <Section title="In this browser">
      <label class="setting">
        <span>Theme</span>
        <select value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
          <option value="system">As the system</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={hasShortcuts.value} onChange={(event) => setShortcuts(event.currentTarget.checked)} /> Enable single-key shortcuts
      </label>
      <p class="faint">Text that you began and did not send is kept here, too, for 30 days.</p>
    </Section>
  );
}
