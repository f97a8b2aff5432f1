/** Home: what needs you, what is running, and recent runs. */

import { useState } from "preact/hooks";
import { useHome } from "../data/home";
import type { HomeAnswer, Need } from "../data/shapes";
import { runAddress, taskAddress } from "../router";
import { Actions } from "../ui/actions";
import { Ago, Copy, Empty, Line, Loaded, Section } from "../ui/parts";
import { RunList } from "../ui/runlist";
import { State } from "../ui/state";

const SHOWN = 30;

export default function Home() {
  const home = useHome();
  const [shown, setShown] = useState(SHOWN);
  return (
    <div class="page">
      <h1 class="unseen">Home</h1>
      <Loaded of={home} rows={8}>
        {(data) => (
          <>
            <Counts counts={data.counts} />
            <Section title="Needs you" count={data.needs_you_total}>
              {data.needs_you.length === 0 ? (
                <Empty title="Nothing needs you">
                  <p>Blockers, failed and silent tasks, reviews and gates appear here as they happen.</p>
                </Empty>
              ) : (
                <ul class="needs" aria-label="What needs you">
                  {data.needs_you.slice(0, shown).map((need) => (
                    <NeedCard key={`${need.kind}:${need.id}`} need={need} onDone={home.reload} />
                  ))}
                </ul>
              )}
              {data.needs_you.length > shown && (
                <p class="list-note">
                  <button type="button" class="button tiny" onClick={() => setShown(data.needs_you.length)}>
                    Show {data.needs_you.length - shown} more
                  </button>
                </p>
              )}
              {data.needs_you_total > data.needs_you.length && (
                <p class="faint">
                  Showing {data.needs_you.length} of {data.needs_you_total.toLocaleString()}, most urgent first. <a href="/history?show=problems">All problems</a>
                </p>
              )}
            </Section>
            <Section title="Open" count={data.counts.open}>
              {data.running.length === 0 ? (
                <Empty title="Nothing is open">
                  <p>
                    Connect an agent with <code>deepwork setup</code> and ask it to start a workflow.
                  </p>
                </Empty>
              ) : (
                <RunList runs={data.running} label="Open" />
              )}
            </Section>
            {data.recent.length > 0 && (
              <Section title="Recent" actions={<a href="/runs">All runs</a>}>
                <RunList runs={data.recent} label="Recent runs" />
              </Section>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Counts({ counts }: { counts: HomeAnswer["counts"] }) {
  const all: [string, number, string, string][] = [
    ["Running", counts.states.running ?? 0, "/runs?status=in_progress", "run"],
    ["Unattended", counts.states.unattended ?? 0, "/runs?status=in_progress", "bad"],
    ["Blockers", counts.blockers, "/history?show=problems", "warn"],
    ["Failed tasks", counts.tasks.failed ?? 0, "/runs?status=in_progress", "bad"],
    ["Failed runs", counts.failed, "/runs?status=failed", "bad"],
    ["Completed", counts.completed, "/runs?status=completed", "good"],
    ["All runs", counts.total, "/runs", "quiet"],
  ];
  return (
    <ul class="counts" aria-label="Runs by state, and blockers">
      {all.map(([name, n, to, tone]) => (
        <li>
          <a href={to} class={n ? `tone-${tone}` : "tone-quiet"}>
            <span class="counts-number">{n.toLocaleString()}</span>
            <span class="counts-name">{name}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function NeedCard({ need, onDone }: { need: Need; onDone: () => void }) {
  const to = need.kind === "landing" ? `/landings/${need.id}` : need.kind === "approval" ? `/approvals/${need.id}` : need.kind === "agent_run" ? `/work/${need.id}` : need.task ? taskAddress(need.task.id) : need.run ? runAddress(need.run.id) : undefined;
  return (
    <li class="need" data-item data-need={need.id}>
      <div class="need-state">
        <State status={need.kind === "landing" ? "landing_need" : need.kind} />
        <span class="faint">
          <Ago at={need.since} />
        </span>
      </div>
      <div class="need-main">
        <a class="need-title" data-main href={to}>
          {need.title}
        </a>
        {need.detail && (
          <p class="need-detail">
            <Line text={need.detail} />
          </p>
        )}
        <p class="faint need-where">
          {need.run && <a href={runAddress(need.run.id)}>{need.run.name}</a>}
          {need.task && need.task.name !== need.title && <> › {need.task.name}</>}
          {need.agent_name && <> · {need.agent_name}</>}
        </p>
      </div>
      <div class="need-actions">
        {need.kind === "approval" ? (
          <a class="button" href={to}>Look and decide</a>
        ) : (
          <Actions actions={need.actions} onDone={onDone} />
        )}
        <Copy label="Copy prompt" text={() => buildPrompt(need)} />
      </div>
    </li>
  );
}

/** Builds a prompt that asks an agent to handle this. */
function buildPrompt(need: Need): string {
  if (!need.run) return [`Please handle this review, ${need.id}:`, need.title, need.detail ?? ""].filter(Boolean).join("\n");
  const where = need.task ? `task ${need.task.id} ("${need.task.name}") of workflow ${need.run.id} ("${need.run.name}")` : `workflow ${need.run.id} ("${need.run.name}")`;
  return [`Please handle this in ${where}:`, need.title, need.detail ?? "", `Call get_context for workflow ${need.run.id} first.`].filter(Boolean).join("\n");
}
