/** One line on the first visit after an hour: what happened meanwhile. */

import { absence } from "../data/visits";
import { path } from "../router";
import { measureAbsence, summarize } from "../view/since";

export function SinceBar() {
  const found = absence.value;
  if (!found || path.value.startsWith("/since")) return null;
  return (
    <div class="notice is-news" role="status">
      <span>
        <strong>Since you left</strong> ({measureAbsence(found)}): {summarize(found)}.
      </span>
      <a class="button tiny" href={`/since/${encodeURIComponent(found.since)}`} onClick={() => (absence.value = null)}>
        Look
      </a>
      <button type="button" class="button tiny" onClick={() => (absence.value = null)}>
        Dismiss
      </button>
    </div>
  );
}
