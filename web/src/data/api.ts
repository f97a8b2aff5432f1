/** Reading from the server and acting through its tools. */

import type { Spoken } from "./shapes";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly spoken: Spoken,
  ) {
    super(spoken.message);
  }
}

/** The server did not answer at all. */
export class NoAnswer extends Error {}

export interface Read<T> {
  data: T;
  /** The last event that the answer knows of. */
  seq: number;
}

export async function read<T>(address: string, signal?: AbortSignal): Promise<Read<T>> {
  const answer = await ask(`/api/v1${address}`, { signal: signal ?? null, headers: { Accept: "application/json" } });
  return { data: (await answer.json()) as T, seq: seqOf(answer) };
}

/** Carry out a tool; the key makes a repeated press harmless. */
export async function act(tool: string, body: Record<string, unknown>, key: string): Promise<unknown> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const answer = await ask(`/api/v1/actions/${tool}`, { method: "POST", headers, body: JSON.stringify(body) });
  return answer.json();
}

async function ask(address: string, options: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new NoAnswer("The server does not answer.");
  }
  if (!answer.ok) throw new ApiError(answer.status, await spoken(answer));
  return answer;
}

async function spoken(answer: Response): Promise<Spoken> {
  try {
    const body = (await answer.json()) as Partial<Spoken>;
    if (typeof body.message === "string") return { code: body.code ?? "ERROR", message: body.message, suggestion: body.suggestion };
  } catch {
    // Not ours: a proxy's page, or nothing at all.
  }
  return { code: `HTTP_${answer.status}`, message: `The server answered ${answer.status} ${answer.statusText}.` };
}

function seqOf(answer: Response): number {
  const digits = /\d+/.exec(answer.headers.get("ETag") ?? "");
  return digits ? Number(digits[0]) : 0;
}
