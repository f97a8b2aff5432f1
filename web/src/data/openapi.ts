/** Checks which query parameters the server supports, so that pages show only filters that work. */

import { signal } from "@preact/signals";
import { read } from "./api";

interface OpenApi {
  paths: Record<string, { get?: { parameters?: { name: string }[] } }>;
}

const openApi = signal<OpenApi | null>(null);
let isRequested = false;

export function supportsParameter(address: string, parameter: string): boolean {
  if (!isRequested) {
    isRequested = true;
    read<OpenApi>("/openapi.json").then(
      (answer) => (openApi.value = answer.data),
      () => (isRequested = false),
    );
  }
  return openApi.value?.paths[`/api/v1${address}`]?.get?.parameters?.some((each) => each.name === parameter) ?? false;
}
