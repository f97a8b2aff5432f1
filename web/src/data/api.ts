/** Reads from the REST API and calls tools. */

import type { ErrorBody } from "./shapes";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly body: ErrorBody,
  ) {
    super(body.message);
  }
}

/** The server did not respond. */
export class NoResponse extends Error {}

export interface Read<T> {
  /** Undefined only if it is what the given ETag names. */
  data: T;
  /** The number of the last event that the answer includes. */
  seq: number;
  tag: string | null;
}

export async function read<T>(address: string, signal?: AbortSignal, tag?: string | null): Promise<Read<T>> {
  const headers = { Accept: "application/json", ...(tag ? { "If-None-Match": tag } : {}) };
  const answer = await request(`/api/v1${address}`, { signal: signal ?? null, headers, cache: "no-store" });
  const data = answer.status === 304 ? undefined : await answer.json();
  return { data: data as T, seq: parseSeq(answer), tag: answer.headers.get("ETag") };
}

/** Call a tool; the idempotency key makes a repeated click harmless. */
export async function callTool(tool: string, body: Record<string, unknown>, key: string): Promise<unknown> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const answer = await request(`/api/v1/actions/${tool}`, { method: "POST", headers, body: JSON.stringify(body) });
  return answer.json();
}

async function request(address: string, options: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new NoResponse("The server is not responding.");
  }
  if (!answer.ok && answer.status !== 304) throw new ApiError(answer.status, await parseError(answer));
  return answer;
}

async function parseError(answer: Response): Promise<ErrorBody> {
  try {
    const body = (await answer.json()) as Partial<ErrorBody>;
    if (typeof body.message === "string") return { code: body.code ?? "ERROR", message: body.message, suggestion: body.suggestion, proof: body.proof, approval: body.approval };
  } catch {
    // Not an error of deepwork: a proxy's page, or an empty body.
  }
  return { code: `HTTP_${answer.status}`, message: `The server answered ${answer.status} ${answer.statusText}.` };
}

function parseSeq(answer: Response): number {
  const digits = /\d+/.exec(answer.headers.get("ETag") ?? "");
  return digits ? Number(digits[0]) : 0;
}
