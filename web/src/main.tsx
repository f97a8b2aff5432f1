import { render } from "preact";
import { App } from "./app";
import { startClock } from "./clock";
import { startDrafts } from "./data/drafts";
import { start } from "./data/live";
import { startVisits } from "./data/visits";
import { startKeys } from "./keys";
import { followLinks, followNotifications } from "./router";
import "./styles.css";

followLinks();
followNotifications();
startKeys();
startClock();
startDrafts();
start();
startVisits();
render(<App />, document.getElementById("app")!);
