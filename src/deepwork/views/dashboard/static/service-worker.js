/* Shows notifications and opens what they are about. It stores nothing and answers no requests: the page needs its server anyway. */

const isPath = (given) => typeof given === "string" && /^\/(?![/\\])/.test(given);

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let said = {};
  try {
    said = event.data.json();
  } catch {
    // Browsers demand that something is shown for each message.
  }
  const options = {
    body: String(said.body ?? ""),
    // A message that is sent again replaces the first one.
    tag: String(said.id ?? "deepwork"),
    icon: "/icon-192.png",
    data: { path: isPath(said.path) ? said.path : "/" },
  };
  event.waitUntil(self.registration.showNotification(String(said.title || "Something waits for you."), options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const path = isPath(event.notification.data?.path) ? event.notification.data.path : "/";
  event.waitUntil(open(path));
});

/** Opens a path in a window that is there already, or in a new one. */
async function open(path) {
  const [window] = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  if (!window) return self.clients.openWindow(path);
  await window.focus().catch(() => {}); // the browser may not allow it; the page changes all the same
  window.postMessage({ type: "deepwork-open", path });
}
