/** Acts of a person that may need a proof: the call, what it lacks, and what went wrong. */

import { useRef, useState } from "preact/hooks";
import { ApiError, callTool } from "../data/api";
import type { PersonProof } from "../data/passkeys";
import { useResource } from "../data/resource";

export interface Failure {
  message: string;
  /** The call can be made again with the passphrase. */
  needsPassphrase: boolean;
  /** What has to be approved with a passkey first. */
  approval?: string;
}

/** Makes a call of a person and keeps what went wrong; a repeated click has the effect of one. */
export function useAct<T>(onDone: (answer: T) => void) {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const key = useRef(crypto.randomUUID());
  const call = async (tool: string, given: Record<string, unknown>, form?: HTMLFormElement | null) => {
    const passphrase = form ? String(new FormData(form).get("passphrase") ?? "") : "";
    setBusy(true);
    setFailure(null);
    try {
      const answer = await callTool(tool, { ...given, ...(passphrase ? { proof: { passphrase } } : {}) }, key.current);
      key.current = crypto.randomUUID();
      onDone(answer as T);
    } catch (problem) {
      // A rejected call had no effect, so the next one gets a new key.
      if (problem instanceof ApiError && problem.status < 500) key.current = crypto.randomUUID();
      setFailure(describeFailure(problem as Error));
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, failure, call, forget: () => setFailure(null) };
}

function describeFailure(problem: Error): Failure {
  if (!(problem instanceof ApiError)) return { message: problem.message, needsPassphrase: false };
  const { suggestion, proof, approval } = problem.body;
  return { message: suggestion ? `${problem.message} ${suggestion}` : problem.message, needsPassphrase: proof === "passphrase", approval: approval?.id };
}

/** What went wrong, with a link to what has to be approved first. */
export function FailureNote({ failure }: { failure: Failure | null }) {
  if (!failure) return null;
  return (
    <div class="form-error" role="alert">
      <p>{failure.message}</p>
      {failure.approval && (
        <p>
          <a class="button" href={`/approvals/${failure.approval}`} target="_blank" rel="noopener">
            Open {failure.approval} in a new tab
          </a>
        </p>
      )}
    </div>
  );
}

/** The field for the passphrase, where one is required, and else what the proof is. */
export function ActProof({ failure }: { failure: Failure | null }) {
  const { data } = useResource<PersonProof>("/person-proof", (event) => event.type.startsWith("proof:"));
  if (!data) return null;
  const hasPasskey = data.credentials.some((each) => each.method === "passkey");
  if (hasPasskey) return <p class="faint">You need a passkey: the first click asks for an approval of exactly this, which you give on its page; then click again.</p>;
  if (data.required === "passphrase" || failure?.needsPassphrase) return <PassphraseField />;
  return <p class="faint">Recorded under your name. No passphrase or passkey is enrolled, so your token is the proof.</p>;
}

export function PassphraseField() {
  return (
    <label class="ask">
      <span>Passphrase</span>
      <input type="password" name="passphrase" autoComplete="current-password" required />
    </label>
  );
}
