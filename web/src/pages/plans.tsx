/** Plans, each with its running, ready and waiting tasks. */

import { anyOf, ofRun, useResource } from "../data/resource";
import type { GraphAnswer, RunLine, RunsAnswer } from "../data/shapes";
import { runAddress, taskAddress } from "../router";
import { Empty, Loaded, formatCount, Section } from "../ui/parts";
import { RunList } from "../ui/runlist";
import { State, StateMark } from "../ui/state";

const OPENED = 6;

export default function Plans() {
  const plans = useResource<RunsAnswer>("/runs?kind=plan&limit=50", anyOf("plan", "plan_task"));
  const isOpen = (run: RunLine) => ["ready", "in_progress", "paused", "planning"].includes(run.status);
  return (
    <div class="page">
      <h1>Plans</h1>
      <Loaded of={plans}>
        {(data) => {
          const open = data.runs.filter(isOpen);
          const over = data.runs.filter((run) => !isOpen(run));
          if (data.runs.length === 0)
            return (
              <Empty title="No plans yet">
                <p>
                  An agent creates one with <code>workflow_create</code> and <code>workflow_set_plan</code>.
                </p>
              </Empty>
            );
          return (
            <>
              {open.slice(0, OPENED).map((run) => (
                <OpenPlan key={run.id} run={run} />
              ))}
              {open.length > OPENED && (
                <Section title="More active plans" count={open.length - OPENED}>
                  <RunList runs={open.slice(OPENED)} label="More active plans" />
                </Section>
              )}
              {over.length > 0 && (
                <Section title="Ended" count={over.length} actions={<a href="/runs?kind=plan">All plans</a>}>
                  <RunList runs={over} label="Ended plans" />
                </Section>
              )}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

function OpenPlan({ run }: { run: RunLine }) {
  const graph = useResource<GraphAnswer>(`/runs/${encodeURIComponent(run.id)}/graph?whole=true`, ofRun(run.id));
  return (
    <Section title={run.name} actions={<><a href={runAddress(run.id, { tab: "graph" })}>Graph</a> <a href={runAddress(run.id, { tab: "log" })}>Log</a></>}>
      <RunList runs={[run]} label={run.name} />
      <Loaded of={graph} rows={2}>
        {(data) => {
          const ready = data.nodes.filter((node) => node.is_ready);
          const running = data.nodes.filter((node) => ["running", "needs_you", "parked", "unattended"].includes(node.state ?? ""));
          const waiting = data.nodes.filter((node) => node.is_blocked);
          return (
            <div class="columns">
              <Column title="Running" nodes={running} status="in_progress" />
              <Column title="Ready to start" nodes={ready} status="ready" />
              <Column title="Waiting for others" nodes={waiting} status="pending" />
            </div>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Column({ title, nodes, status }: { title: string; nodes: GraphAnswer["nodes"]; status: string }) {
  return (
    <div class="column">
      <h3>
        <StateMark status={status} /> {title} <span class="count">{nodes.length}</span>
      </h3>
      {nodes.length === 0 ? (
        <p class="faint">None</p>
      ) : (
        <ul class="plain">
          {nodes.slice(0, 8).map((node) => (
            <li>
              <a href={taskAddress(node.id)}>{node.name}</a> {node.status === "failed" && <State status="failed" isSmall />}
            </li>
          ))}
        </ul>
      )}
      {nodes.length > 8 && <p class="faint">and {formatCount(nodes.length - 8, "more", "more")}</p>}
    </div>
  );
}
