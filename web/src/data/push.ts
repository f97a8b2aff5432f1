/** Web Push in this browser: its service worker, and its subscription at the browser's push service. */

import { callTool } from "./api";
import type { Channel } from "./shapes-notify";

const WORKER = "/service-worker.js";
const CHANNEL = "deepwork.push-channel";

interface ScriptUrls {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL(url: string): string };
}

/** Why this browser cannot be told; "" if it can. */
export function findObstacle(): string {
  if (!window.isSecureContext) return "Browsers allow notifications only on localhost and over HTTPS.";
  if (!("serviceWorker" in navigator)) return "This browser has no service workers, which notifications need; private windows often have none.";
  if (!("PushManager" in window) || !("Notification" in window)) return "Install this page first: “Add to Home screen” in the browser's menu, then open it from there.";
  if (Notification.permission === "denied") return "Notifications of this page are blocked in the browser's settings.";
  return "";
}

/** The channel of this browser, if it is still one. */
export function findOwn(channels: readonly Channel[]): Channel | undefined {
  const id = localStorage.getItem(CHANNEL);
  return channels.find((each) => each.id === id);
}

/** Register the worker; it is the only script that this page may start. */
export async function registerWorker(): Promise<ServiceWorkerRegistration> {
  const trusted = (window as unknown as { trustedTypes?: ScriptUrls }).trustedTypes;
  policy ??= trusted?.createPolicy("deepwork-worker", {
    createScriptURL: (url) => {
      if (url !== WORKER) throw new TypeError(`${url} is not the worker of this page.`);
      return url;
    },
  });
  await navigator.serviceWorker.register((policy?.createScriptURL(WORKER) ?? WORKER) as string, { scope: "/" });
  return navigator.serviceWorker.ready;
}

let policy: { createScriptURL(url: string): string } | undefined;

/** Subscribe this browser and add it as a channel. */
export async function subscribe(name: string): Promise<Channel> {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("The browser did not allow notifications.");
  const { public_key } = (await callTool("prepare_push", {}, crypto.randomUUID())) as { public_key: string };
  const worker = await registerWorker();
  const key = decode(public_key);
  const before = await worker.pushManager.getSubscription();
  // A subscription with the key of another server cannot be used by this one.
  if (before && !isSameKey(before.options.applicationServerKey, key)) await before.unsubscribe();
  const made = (await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })).toJSON();
  const given = { endpoint: made.endpoint, public_key: made.keys?.p256dh, auth: made.keys?.auth, name };
  const { channel } = (await callTool("add_browser", given, crypto.randomUUID())) as { channel: Channel };
  localStorage.setItem(CHANNEL, channel.id);
  return channel;
}

/** End the subscription of this browser and remove its channel. */
export async function unsubscribe(channel: Channel): Promise<void> {
  await callTool("remove_channel", { channel_id: channel.id }, crypto.randomUUID());
  localStorage.removeItem(CHANNEL);
  const worker = await navigator.serviceWorker.getRegistration("/");
  await (await worker?.pushManager.getSubscription())?.unsubscribe();
}

/** Name this browser as people do: "Chrome on Android". */
export function nameBrowser(agent: string): string {
  const find = (names: [RegExp, string][]) => names.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = find([[/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"]]) ?? "A browser";
  const system = find([[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS X/, "Mac"], [/Linux/, "Linux"]]);
  return system ? `${browser} on ${system}` : browser;
}

function decode(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
}

function isSameKey(known: ArrayBuffer | null, key: Uint8Array): boolean {
  return known !== null && String(new Uint8Array(known)) === String(key);
}
