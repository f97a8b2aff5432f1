/** Landings: the button that lands work, their states, and lists of them. */

import { useRef, useState } from "preact/hooks";
import { me } from "../data/live";
import type { CheckLine, Landing, LandResult } from "../data/shapes";
import { taskAddress } from "../router";
import { describeProblem, isIntegrated } from "../view/landings";
import { reveal } from "../view/reveal";
import { Actions } from "./actions";
import { FailureNote, PassphraseField, useAct } from "./acts";
import { Dialog } from "./dialog";
import { Ago, formatCount, humanize } from "./parts";
import { showResult } from "./result";
import { Next, Standing } from "./standing";
import { State } from "./state";
import { CommitLink } from "./why";

export function LandingState({ landing }: { landing: Landing }) {
  return <Standing of={landing} status={landing.status} />;
}

/** Lands a task or a plan; only for people whose token may. An open dialog stays when the task changes. */
export function LandButton({ task, plan, name, isOffered = true, onDone }: { task?: string; plan?: string; name: string; isOffered?: boolean; onDone?: () => void }) {
  const [isOpen, setOpen] = useState(false);
  if (!me.value.actions?.includes("land_work")) return null;
  return (
    <>
      {isOffered && (
        <button type="button" class="button" onClick={() => setOpen(true)}>
          Land…
        </button>
      )}
      {isOpen && (
        <LandDialog
          subject={task ? { task_id: task } : { workflow_id: plan }}
          name={name}
          onClose={() => {
            setOpen(false);
            onDone?.();
          }}
        />
      )}
    </>
  );
}

function LandDialog({ subject, name, onClose }: { subject: Record<string, unknown>; name: string; onClose: () => void }) {
  const form = useRef<HTMLFormElement>(null);
  const [result, setResult] = useState<LandResult | null>(null);
  const act = useAct<LandResult>((answer) => {
    setResult(answer);
    showResult({ text: summarize(answer) });
  });
  const land = (event: Event) => {
    event.preventDefault();
    const given = new FormData(form.current!);
    const onto = String(given.get("onto") ?? "").trim();
    void act.call("land_work", { ...subject, ...(onto ? { onto } : {}), commit: given.has("commit") }, form.current);
  };
  if (result) return <Dialog title={`Land: ${name}`} onClose={onClose} wide><Outcome result={result} onClose={onClose} /></Dialog>;
  return (
    <Dialog title={`Land: ${name}`} onClose={onClose}>
      <form ref={form} onSubmit={land}>
        <p>
          {subject.task_id ? "The work of this task is" : "The work of all completed tasks is"} merged, its checks run in a clean tree of the merged result, and only then the branch moves. No working tree changes.
        </p>
        <label class="ask">
          <span>Branch</span>
          <input type="text" name="onto" placeholder="the one that the plan started from" spellcheck={false} autoComplete="off" />
        </label>
        <label class="check">
          <input type="checkbox" name="commit" /> Commit uncommitted work first
        </label>
        {act.failure?.needsPassphrase && <PassphraseField />}
        <FailureNote failure={act.failure} />
        <div class="dialog-foot">
          <span class="faint" role="status">{act.isBusy ? "Merging and checking. You can close this: it goes on." : "Recorded under your name."}</span>
          <button type="submit" class="button primary" disabled={act.isBusy}>{act.isBusy ? "Landing …" : "Land"}</button>
        </div>
      </form>
    </Dialog>
  );
}

function summarize(result: LandResult): string {
  const landed = result.landings.filter((each) => each.status === "landed").length;
  const open = result.landings.length - landed;
  if (!result.landings.length) return result.skipped?.length ? "Nothing landed." : "There is nothing to land.";
  return `${formatCount(landed, "task")} landed${open ? `, ${open} not yet` : ""}.`;
}

function Outcome({ result, onClose }: { result: LandResult; onClose: () => void }) {
  return (
    <>
      <p role="status"><strong>{summarize(result)}</strong></p>
      {result.landings.length > 0 && <LandingList landings={result.landings} label="Landings" />}
      {result.skipped && result.skipped.length > 0 && (
        <ul class="plain" aria-label="Left out">
          {result.skipped.map((each) => (
            <li><State status={each.refused ? "failed" : "skipped"} word={each.refused ? "not landed" : "left out"} isSmall /> <a href={taskAddress(each.task_id)}>{reveal(each.name)}</a> {reveal(each.reason)}</li>
          ))}
        </ul>
      )}
      <div class="dialog-foot"><span /> <button type="button" class="button primary" onClick={onClose}>Close</button></div>
    </>
  );
}

export function LandingList({ landings, label, onDone }: { landings: Landing[]; label: string; onDone?: () => void }) {
  return (
    <ol class="runlist" aria-label={label}>
      {landings.map((landing) => (
        <LandingRow key={landing.id} landing={landing} onDone={onDone} />
      ))}
    </ol>
  );
}

function LandingRow({ landing, onDone }: { landing: Landing; onDone?: () => void }) {
  const problem = describeProblem(landing);
  return (
    <li class="landing-row" data-item data-landing={landing.id}>
      <div class="run-state">
        <LandingState landing={landing} />
        {landing.position != null && <span class="faint">{landing.position === 1 ? "next" : `${landing.position}. in the queue`}</span>}
      </div>
      <div class="run-main">
        <a class="run-name" data-main href={`/landings/${landing.id}`}>{reveal(landing.title)}</a>
        {landing.kind !== "task" && <span class="kind">{humanize(landing.kind)}</span>}
        <p class="faint"><Way landing={landing} /></p>
        {problem && <p class="tone-warn">{problem}{landing.returns > 0 && `; sent back ${landing.returns === 1 ? "once" : `${landing.returns} times`}`}</p>}
        {landing.reason && <p class="run-milestone">{reveal(landing.reason)}</p>}
        <Next of={landing} />
        <Checks checks={landing.checks} />
      </div>
      <div class="run-times">
        {landing.merge_commit && <CommitLink commit={landing.merge_commit} />}
        <span class="faint"><Ago at={landing.ended_at ?? landing.updated_at} /></span>
      </div>
      {landing.actions && landing.actions.length > 0 && <div class="landing-actions"><Actions actions={landing.actions} onDone={onDone} /></div>}
    </li>
  );
}

/** From which branch to which; an integration branch says for what it stands. */
export function Way({ landing }: { landing: Landing }) {
  return (
    <>
      {landing.source_branch && <><code>{reveal(landing.source_branch)}</code> → </>}
      <code>{reveal(landing.branch ?? landing.target)}</code>
      {isIntegrated(landing) && <> for <code>{reveal(landing.target)}</code>, which is checked out</>}
    </>
  );
}

/** The checks of the merged result. */
export function Checks({ checks }: { checks: CheckLine[] | null | undefined }) {
  if (!checks?.length) return null;
  return (
    <p class="check-marks" aria-label="Checks of the merged result">
      {checks.map((check) => {
        const isPassed = check.verdict === "passed" || check.verdict === "flaky" || Boolean(check.waived_by);
        return <State status={check.verdict ? (isPassed ? "passed" : "failed") : "pending"} word={`${check.name}: ${humanize(check.waived_by ? "waived" : (check.verdict ?? "not run"))}`} isSmall />;
      })}
    </p>
  );
}
