/** What waits for a person, for the frame and the first page. */

import { LOOK_AGAIN, useResource, type EventFilter, type Resource } from "./resource";
import type { HomeAnswer } from "./shapes";

/** Nearly every event affects it; the exceptions are listed. */
const affectsHome: EventFilter = (event) => !["message:created", "message:read", "message:archived", "template:created", "repository:registered", "attempt:progress"].includes(event.type);

export const useHome = (): Resource<HomeAnswer> => useResource<HomeAnswer>("/home", affectsHome, LOOK_AGAIN);
