/** How a person proves that decisions are theirs: passphrase and passkeys. */

import { useRef, useState } from "preact/hooks";
import { me } from "../data/live";
import { canUsePasskeys, createPasskey, type PersonProof } from "../data/passkeys";
import { useResource } from "../data/resource";
import { Ago, formatCount, Loaded, Section } from "./parts";
import { findObstacle, prove, ProofField, useProvenCall } from "./prove";

/** How this person proves that decisions are theirs, and the form for another passkey. */
export function Credentials() {
  const proof = useResource<PersonProof>("/person-proof", (event) => event.type.startsWith("proof:"));
  return (
    <Section title="How you prove that a decision is yours">
      <Loaded of={proof} rows={2}>
        {(known) => (
          <>
            <p>
              Decisions need a <strong>{known.required}</strong>.{" "}
              {known.required === "token" && "Every program that runs as you can read it and decide in your name; a passphrase or a passkey protects from that."}
            </p>
            {known.credentials.length > 0 && (
              <ul class="cards" aria-label="Enrolled proofs">
                {known.credentials.map((each) => (
                  <li class="card">
                    <p>
                      {each.method}: <strong>{each.name}</strong> {each.relying_party && <span class="faint">for {each.relying_party}</span>} <span class="faint">since <Ago at={each.created_at} /></span>
                    </p>
                  </li>
                ))}
              </ul>
            )}
            <AddPasskey proof={known} onDone={proof.reload} />
            <RemovePasskeys proof={known} onDone={proof.reload} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** Commands cannot ask for a passkey, so going back from one is possible here only. */
function RemovePasskeys({ proof, onDone }: { proof: PersonProof; onDone: () => void }) {
  const form = useRef<HTMLFormElement>(null);
  const { isBusy, error, call } = useProvenCall(onDone);
  const has = (method: string): boolean => proof.credentials.some((each) => each.method === method);
  if (!has("passkey") || !me.value.actions?.includes("lower_proof") || me.value.scope !== "admin" || findObstacle(proof)) return null;
  const method = has("passphrase") ? "passphrase" : "token";
  const lower = (event: Event) => {
    event.preventDefault();
    void call(`Decisions need a ${method} now.`, "lower_proof", async () => ({ method, proof: await prove(proof, form.current!, ["lower", method]) }));
  };
  return (
    <form ref={form} class="decide" onSubmit={lower}>
      {error && <p class="form-error" role="alert">{error}</p>}
      <div class="actions">
        <button type="submit" class="button danger" disabled={isBusy}>Remove all passkeys</button>
        <span class="faint">Decisions need a {method} then.</span>
      </div>
    </form>
  );
}

function AddPasskey({ proof, onDone }: { proof: PersonProof; onDone: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const { isBusy, error, call } = useProvenCall(() => {
    setOpen(false);
    onDone();
  });
  if (!me.value.actions?.includes("enroll_passkey") || me.value.scope !== "admin") return null;
  if (!proof.can_verify_passkeys) return <p class="faint">For passkeys install <code>deepwork[passkey]</code> where this server runs.</p>;
  if (!canUsePasskeys()) return <p class="faint">For passkeys open this page under a host name, such as <code>{location.origin.replace(location.hostname, "localhost")}</code>: browsers offer none to addresses.</p>;
  if (!isOpen) return <div class="actions"><button type="button" class="button" onClick={() => setOpen(true)}>Add a passkey</button></div>;
  const enroll = (event: Event) => {
    event.preventDefault();
    const given = form.current!;
    const name = String(new FormData(given).get("name") ?? "");
    const enrolled = proof.credentials.some((each) => each.method === proof.required) ? proof : { ...proof, required: "token" as const };
    void call(`Enrolled ${name}.`, "enroll_passkey", async () => {
      const credential = await createPasskey(me.value.name ?? "person", proof.challenge, proof.credentials);
      return { name, credential, challenge: proof.challenge, proof: await prove(enrolled, given, ["enroll", "passkey", credential.id]) };
    });
  };
  return (
    <form ref={form} class="decide" onSubmit={enroll}>
      <label class="ask">
        <span>Name of the passkey</span>
        <input type="text" name="name" required maxLength={100} placeholder="laptop" />
      </label>
      {proof.required === "passphrase" && <ProofField proof={proof} />}
      <p class="faint">From then on every decision, here and with <code>deepwork trust</code>, needs a passkey. {formatCount(proof.credentials.length, "proof")} enrolled now.</p>
      {error && <p class="form-error" role="alert">{error}</p>}
      <div class="actions">
        <button type="submit" class="button primary" disabled={isBusy}>Create the passkey</button>
        <button type="button" class="button" disabled={isBusy} onClick={() => setOpen(false)}>Cancel</button>
      </div>
    </form>
  );
}
