/** Since you left: what landed, failed, is parked, was decided without you and was done, and what it cost. */

import { useEffect } from "preact/hooks";
import type { SinceAnswer, SinceGroup, SinceLine, SinceName } from "../data/shapes-notify";
import { anyOf, useResource } from "../data/resource";
import { absence } from "../data/visits";
import type { PageProps } from "../routes";
import { Ago, Empty, Loaded, Section } from "../ui/parts";
import { SINCE_NAMES, addressOf, measureAbsence, summarize } from "../view/since";
import "./since.css";

const PERIODS = ["1h", "8h", "1d", "7d"];
const affects = anyOf("landing", "plan_task", "task", "attempt", "decision", "approval", "session", "spending");

export default function Since({ rest }: PageProps) {
  useEffect(() => {
    absence.value = null;
  }, []);
  const found = useResource<SinceAnswer>(`/since${rest ? `?since=${encodeURIComponent(rest)}` : ""}`, affects);
  return (
    <div class="page since">
      <h1>Since you left</h1>
      <p class="since-periods">
        {PERIODS.map((each) => (
          <a class="button tiny" href={`/since/${each}`} aria-current={rest === each ? "true" : undefined}>
            {each}
          </a>
        ))}
      </p>
      <Loaded of={found}>{(answer) => <Happened of={answer} />}</Loaded>
    </div>
  );
}

function Happened({ of: found }: { of: SinceAnswer }) {
  const summary = summarize(found);
  return (
    <>
      <p class="since-head">
        <strong>{measureAbsence(found)}</strong>, since <Ago at={found.since} />: {summary || "nothing"}.
      </p>
      {!summary && <Empty title="Nothing happened">Nothing landed, failed, was parked, was decided or was done in this time.</Empty>}
      {(Object.keys(SINCE_NAMES) as SinceName[]).map((name) => found[name].total > 0 && <Group name={name} of={found[name]} />)}
    </>
  );
}

function Group({ name, of: group }: { name: SinceName; of: SinceGroup }) {
  return (
    <Section title={SINCE_NAMES[name]} count={group.total} id={`since-${name}`}>
      <ul class="since-lines" aria-label={SINCE_NAMES[name]}>
        {group.items.map((line) => (
          <Line key={line.id} of={line} />
        ))}
      </ul>
      {group.total > group.items.length && <p class="faint">and {(group.total - group.items.length).toLocaleString()} more</p>}
    </Section>
  );
}

function Line({ of: line }: { of: SinceLine }) {
  return (
    <li>
      <a href={addressOf(line)}>{line.title}</a>
      {line.detail && <span class="since-detail">{line.detail}</span>}
      <span class="faint since-about">
        {[line.by?.replace(/^human:/, ""), line.run?.name].filter(Boolean).join(" · ")} <Ago at={line.at} />
      </span>
    </li>
  );
}
