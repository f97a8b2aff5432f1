/** Lets a person prove that a decision is theirs: a field for the passphrase, or the passkey behind the button. */

import { useState } from "preact/hooks";
import { ApiError, callTool } from "../data/api";
import { answerWithPasskey, canUsePasskeys, type PersonProof, type Proof } from "../data/passkeys";
import { showResult } from "./result";

/** What a proof still lacks on this page, if anything; decisions are not possible then. */
export function findObstacle(proof: PersonProof): string {
  const count = proof.credentials.filter((each) => each.method === proof.required).length;
  if (proof.required === "token") return "";
  if (!count) return `Your settings demand a ${proof.required}, and none is enrolled here yet.`;
  if (proof.required === "passphrase") return "";
  if (!proof.can_verify_passkeys) return "This server cannot verify passkeys: install deepwork[passkey] there.";
  if (!canUsePasskeys()) return `Browsers offer passkeys only to host names: open this page under ${localAddress()}.`;
  return proof.credentials.some((each) => each.relying_party === location.hostname) ? "" : `No passkey is enrolled for ${location.hostname}.`;
}

const localAddress = (): string => location.origin.replace(location.hostname, "localhost");

/** Builds the proof of what the parts say; asks for the passkey if that is how it must be. */
export async function prove(proof: PersonProof, form: HTMLFormElement, parts: string[]): Promise<Proof> {
  if (proof.required === "passphrase") return { passphrase: String(new FormData(form).get("passphrase") ?? "") };
  if (proof.required === "passkey") return { passkey: await answerWithPasskey(proof.credentials, parts) };
  return {};
}

export function ProofField({ proof }: { proof: PersonProof }) {
  const locked = proof.credentials.find((each) => each.locked_until)?.locked_until;
  if (proof.required === "passphrase") {
    return (
      <label class="ask">
        <span>Passphrase</span>
        <input type="password" name="passphrase" autoComplete="current-password" required aria-describedby="proof-note" />
        {locked && <span id="proof-note" class="form-error">Too many wrong ones; the next try is possible at {new Date(locked).toLocaleTimeString()}.</span>}
      </label>
    );
  }
  if (proof.required === "passkey") return <p class="faint">Your passkey is asked for when you decide.</p>;
  return (
    <p class="faint">
      Your token is the only proof: every program that runs as you can read it and decide in your name. Enroll a passphrase (<code>deepwork approvals enroll passphrase</code>) or, in the <a href="/settings?show=credentials">settings</a>, a passkey.
    </p>
  );
}

/** Calls an action with a proof, and keeps what went wrong. */
export function useProvenCall(onDone: () => void) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const call = async (said: string, tool: string, build: () => Promise<Record<string, unknown>>) => {
    setBusy(true);
    setError("");
    try {
      await callTool(tool, await build(), crypto.randomUUID());
      showResult({ text: said });
      onDone();
    } catch (problem) {
      const more = problem instanceof ApiError && problem.body.suggestion ? ` ${problem.body.suggestion}` : "";
      setError(problem instanceof DOMException ? "The passkey was not used: it was cancelled or refused." : `${(problem as Error).message}${more}`);
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, error, call };
}
