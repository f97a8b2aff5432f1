/** Agents with their tasks and last sign of life. */

import type { ComponentChildren } from "preact";
import { anyOf, useResource } from "../data/resource";
import type { Action, AgentLine } from "../data/shapes";
import { query, taskAddress, withQuery } from "../router";
import { Actions } from "../ui/actions";
import { Ago, Empty, Loaded, formatCount, Prose, Section, tokens } from "../ui/parts";
import { State } from "../ui/state";

interface Message {
  id: string;
  sender_id?: string | null;
  sender_name?: string | null;
  type?: string;
  message_type?: string;
  subject?: string | null;
  body?: string | null;
  preview?: string | null;
  status?: string;
  created_at: string | number;
}

export function Agents({ head }: { head: ComponentChildren }) {
  const list = useResource<{ agents: AgentLine[]; tracked?: TrackedAgent[]; total: number }>("/agents?limit=200", anyOf("agent", "plan_task", "message", "task"));
  const chosen = query.value.get("agent");
  return (
    <div class="page">
      {head}
      <Loaded of={list}>
        {(data) =>
          data.agents.length === 0 && !data.tracked?.length ? (
            <Empty title="No registered agents">
              <p>
                Agents register by calling <code>agent_register</code>. Tracked work does not require it.
              </p>
            </Empty>
          ) : (
            <>
              {data.agents.length > 0 && <p class="faint list-note">{formatCount(data.total, "registered agent")}</p>}
              <h2 class="unseen">Registered</h2>
              <ul class="cards agents" aria-label="Agents">
                {data.agents.map((agent) => (
                  <AgentCard key={agent.id} agent={agent} isOpen={agent.id === chosen} onDone={list.reload} names={new Map(data.agents.map((each) => [each.id, each.name]))} />
                ))}
              </ul>
              {data.tracked && data.tracked.length > 0 && (
                <Section title="Named in tracked tasks" count={data.tracked.length}>
                  <ul class="cards agents" aria-label="Agents named in tracked tasks">
                    {data.tracked.slice(0, 100).map((agent) => (
                      <li class="card" data-item key={agent.name}>
                        <div class="card-head">
                          <State status={agent.holds?.length ? "busy" : "idle"} />
                          <h3>{agent.name}</h3>
                        </div>
                        <p class="faint">
                          last sign of life <Ago at={agent.last_sign_at} /> · {formatCount(agent.tasks, "task")}
                          {agent.tasks_failed > 0 && `, ${agent.tasks_failed} failed`}
                          {agent.tokens ? ` · ${tokens(agent.tokens)} tokens` : ""}
                        </p>
                        <Holds holds={agent.holds} />
                      </li>
                    ))}
                  </ul>
                </Section>
              )}
            </>
          )
        }
      </Loaded>
    </div>
  );
}

interface TrackedAgent {
  name: string;
  holds?: AgentLine["holds"];
  tasks: number;
  tasks_failed: number;
  tokens?: number | null;
  last_sign_at?: string | null;
}

function Holds({ holds }: { holds: AgentLine["holds"] }) {
  if (!holds?.length) return null;
  return (
    <ul class="plain">
      {holds.slice(0, 20).map((held) => (
        <li>
          <span class="label">on</span> <a href={taskAddress(held.id)}>{held.name}</a>
          {held.run && <span class="faint"> {held.run.name}</span>}
          {held.since && (
            <span class="faint">
              {" "}
              since <Ago at={held.since} />
            </span>
          )}
          {held.files && held.files.length > 0 && <span class="faint"> · {held.files.slice(0, 5).join(", ")}</span>}
        </li>
      ))}
    </ul>
  );
}

function AgentCard({ agent, isOpen, onDone, names }: { agent: AgentLine; isOpen: boolean; onDone: () => void; names: Map<string, string> }) {
  const ended = (agent.tasks_done ?? 0) + (agent.tasks_failed ?? 0);
  const actions: Action[] = agent.actions ?? [
    { label: "Send message", tool: "message_send", title: `Message to ${agent.name} (${agent.id})`, arguments: { recipient_id: agent.id, message_type: "notification" }, asks: [{ name: "body", label: "Message" }] },
  ];
  return (
    <li class="card" data-item data-agent={agent.id}>
      <div class="card-head">
        <State status={agent.status} />
        <h3>
          <a data-main href={withQuery({ agent: isOpen ? null : agent.id })} aria-expanded={isOpen} role="button" data-keeps-scroll>
            {agent.name}
          </a>
        </h3>
        <span class="kind">{[agent.runtime, agent.role].filter(Boolean).join(" · ")}</span>
        <div class="card-actions">
          <Actions actions={actions} onDone={onDone} />
        </div>
      </div>
      <p class="faint">
        last sign of life <Ago at={agent.last_heartbeat} />
        {ended > 0 && <> · {Math.round((100 * (agent.tasks_done ?? 0)) / ended)} % of {formatCount(ended, "task")} succeeded</>}
        {agent.tokens ? <> · {tokens(agent.tokens)} tokens</> : null}
        {agent.unread ? <> · {formatCount(agent.unread, "unread message")}</> : null}
      </p>
      <Holds holds={agent.holds} />
      {agent.workspace_path && (
        <p class="faint">
          <span class="label">in</span> <code>{agent.workspace_path}</code>
        </p>
      )}
      {isOpen && <Messages agent={agent.id} names={names} />}
    </li>
  );
}

function Messages({ agent, names }: { agent: string; names: Map<string, string> }) {
  const list = useResource<{ messages: Message[] }>(`/agents/${encodeURIComponent(agent)}/messages?limit=100`, anyOf("message"));
  return (
    <Section title="Messages">
      <Loaded of={list} rows={3}>
        {(data) =>
          data.messages.length === 0 ? (
            <p class="faint">No messages.</p>
          ) : (
            <ul class="cards">
              {data.messages.map((message) => (
                <li class="card" key={message.id}>
                  <div class="card-head">
                    <span class="kind">{message.message_type ?? message.type ?? "message"}</span>
                    <h3>{message.subject ?? "(no subject)"}</h3>
                    <span class="faint card-actions">
                      {message.status} · <Ago at={message.created_at} />
                    </span>
                  </div>
                  {(message.body ?? message.preview) && <Prose text={(message.body ?? message.preview)!} longest={800} />}
                  <p class="faint">from {message.sender_name ?? names.get(message.sender_id ?? "") ?? message.sender_id ?? "unknown sender"}</p>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}
