/** What this server can be asked, as it says itself: a filter it does not know is not shown. */

import { signal } from "@preact/signals";
import { read } from "./api";

interface OpenApi {
  paths: Record<string, { get?: { parameters?: { name: string }[] } }>;
}

const described = signal<OpenApi | null>(null);
let isAsked = false;

export function offers(address: string, parameter: string): boolean {
  if (!isAsked) {
    isAsked = true;
    read<OpenApi>("/openapi.json").then(
      (answer) => (described.value = answer.data),
      () => (isAsked = false),
    );
  }
  return described.value?.paths[`/api/v1${address}`]?.get?.parameters?.some((each) => each.name === parameter) ?? false;
}
