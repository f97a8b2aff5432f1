/** Passkeys: asks the browser for one, and for the answer to a challenge. Bytes travel as base64url text. */

export interface Credential {
  id: string;
  method: string;
  name: string;
  created_at: string;
  locked_until?: string | null;
  credential_id?: string | null;
  relying_party?: string | null;
}

export interface PersonProof {
  required: "token" | "passphrase" | "passkey";
  settings: string;
  credentials: Credential[];
  can_verify_passkeys: boolean;
  challenge: string;
}

/** What is sent along with a decision; never part of its arguments. */
export type Proof = { passphrase?: string; passkey?: unknown };

/** Browsers offer passkeys to hosts with a name, not to addresses. */
export function canUsePasskeys(): boolean {
  return typeof PublicKeyCredential === "function" && !/^[\d.]+$|^\[/.test(location.hostname);
}

/** The same digest as the server computes of what is decided. */
export async function computeChallenge(parts: string[]): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(parts)));
}

/** Asks the person to unlock one of the enrolled passkeys for what the parts say. */
export async function answerWithPasskey(credentials: Credential[], parts: string[]): Promise<unknown> {
  const allowed = credentials.filter((each) => each.credential_id).map((each) => ({ type: "public-key" as const, id: decode(each.credential_id!) }));
  const found = (await navigator.credentials.get({
    publicKey: { challenge: await computeChallenge(parts), allowCredentials: allowed, userVerification: "required", rpId: location.hostname },
  })) as PublicKeyCredential | null;
  if (!found) throw new Error("No passkey answered.");
  const response = found.response as AuthenticatorAssertionResponse;
  return {
    ...describe(found),
    response: {
      clientDataJSON: encode(response.clientDataJSON),
      authenticatorData: encode(response.authenticatorData),
      signature: encode(response.signature),
      userHandle: response.userHandle ? encode(response.userHandle) : undefined,
    },
  };
}

/** Asks the browser to create a passkey for this host. */
export async function createPasskey(person: string, challenge: string, known: Credential[]): Promise<{ id: string } & Record<string, unknown>> {
  const made = (await navigator.credentials.create({
    publicKey: {
      challenge: new TextEncoder().encode(challenge),
      rp: { id: location.hostname, name: "deepwork" },
      user: { id: crypto.getRandomValues(new Uint8Array(16)), name: person, displayName: person },
      pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: known.filter((each) => each.credential_id).map((each) => ({ type: "public-key", id: decode(each.credential_id!) })),
      authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
    },
  })) as PublicKeyCredential | null;
  if (!made) throw new Error("No passkey was created.");
  const response = made.response as AuthenticatorAttestationResponse;
  return { ...describe(made), response: { clientDataJSON: encode(response.clientDataJSON), attestationObject: encode(response.attestationObject) } };
}

const describe = (credential: PublicKeyCredential) => ({ id: credential.id, rawId: encode(credential.rawId), type: credential.type });

export function encode(content: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(content))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

export function decode(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
}
