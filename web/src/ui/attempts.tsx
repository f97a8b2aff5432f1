/** Attempts of agents that deepwork started: what each does now, or how it ended, and what it wrote. */

import { useEffect, useRef, useState } from "preact/hooks";
import { absolute, duration, now } from "../clock";
import { useResource } from "../data/resource";
import type { AgentAttempt, OutputAnswer } from "../data/shapes";
import { parseTime } from "../data/tasks";
import { taskAddress } from "../router";
import { bytes, dollars, Duration, Loaded, Prose, tokens } from "./parts";
import { Next, Standing } from "./standing";

export function AttemptList({ attempts, label, ofTask }: { attempts: AgentAttempt[]; label: string; ofTask?: boolean }) {
  return (
    <ul class="runlist" aria-label={label}>
      {attempts.map((attempt) => (
        <AttemptRow key={attempt.id} attempt={attempt} ofTask={ofTask} />
      ))}
    </ul>
  );
}

function AttemptRow({ attempt, ofTask }: { attempt: AgentAttempt; ofTask?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li class="agent-row" data-item data-attempt={attempt.id}>
      <div class="run-state">
        <Standing of={attempt} status={attempt.stage} />
        <Countdown to={attempt.not_before} />
      </div>
      <div class="run-main">
        {ofTask ? (
          <a class="run-name" data-main href={`/work/${attempt.run_id}`}>
            Attempt {attempt.number}
          </a>
        ) : (
          <a class="run-name" data-main href={taskAddress(attempt.task_id)}>
            {attempt.task_name}
          </a>
        )}
        <span class="kind">{attempt.profile}</span>
        {!ofTask && attempt.number > 1 && <span class="faint"> attempt {attempt.number}</span>}
        {attempt.starts > 1 && <span class="faint"> start {attempt.starts}</span>}
        {attempt.now_doing && <p class="run-milestone">{attempt.now_doing}</p>}
        {attempt.reason && <p class="attempt-reason">{attempt.reason}</p>}
        {!attempt.ended_at && <Next of={attempt} />}
        {attempt.outcome && <Prose text={attempt.outcome} longest={300} />}
      </div>
      <div class="run-facts numbers">
        <span>
          <Duration from={attempt.created_at} to={attempt.ended_at} />
        </span>
        <span>{tokens(attempt.tokens)} tokens</span>
        <span title={attempt.usd_source ?? undefined}>{dollars(attempt.usd)}</span>
      </div>
      <div class="run-times">
        <button type="button" class="button tiny" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Output
        </button>
      </div>
      {isOpen && <Output attempt={attempt} />}
    </li>
  );
}

/** How long an attempt that met a limit still waits. */
function Countdown({ to }: { to: unknown }) {
  const end = parseTime(to);
  if (end === null) return null;
  const left = end - now.value;
  return (
    <time class="faint" dateTime={new Date(end).toISOString()} title={absolute(end)}>
      {left > 0 ? `goes on in ${duration(left)}` : "goes on soon"}
    </time>
  );
}

/** Text that shows its end, until the reader scrolls up. */
function Tail({ text }: { text: string }) {
  const shown = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (shown.current && isAtEnd.current) shown.current.scrollTop = shown.current.scrollHeight;
  }, [text]);
  return (
    <pre
      ref={shown}
      tabIndex={0}
      onScroll={({ currentTarget: at }) => (isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 20)}
    >
      {text}
    </pre>
  );
}

const STREAMS = ["stdout", "stderr"];

/** The end of what the agent wrote; read again every few seconds while it works. */
export function Output({ attempt }: { attempt: Pick<AgentAttempt, "id" | "ended_at" | "tree"> }) {
  const [stream, setStream] = useState(STREAMS[0]!);
  const output = useResource<OutputAnswer>(`/runner/attempts/${encodeURIComponent(attempt.id)}/output?stream=${stream}&max_bytes=16384`);
  useEffect(() => {
    if (!attempt.ended_at) output.reload();
  }, [now.value]);
  return (
    <div class="attempt-output">
      <div class="tools-group" role="group" aria-label="Stream">
        {STREAMS.map((each) => (
          <button type="button" class="button tiny" aria-pressed={each === stream} onClick={() => setStream(each)}>
            {each}
          </button>
        ))}
      </div>
      <Loaded of={output} rows={3}>
        {(data) => (
          <>
            {data.text ? <Tail text={data.text} /> : <p class="faint">{data.reason ?? "Nothing was written."}</p>}
            {data.size ? (
              <p class="faint">
                Start {data.start}, {bytes(data.size)}
                {attempt.tree && <> · <code>{attempt.tree}</code></>}
              </p>
            ) : null}
          </>
        )}
      </Loaded>
    </div>
  );
}
