import { render } from "preact";
import { App } from "./app";
import { startClock } from "./clock";
import { startDrafts } from "./data/drafts";
import { start } from "./data/live";
import { startKeys } from "./keys";
import { followLinks } from "./router";
import "./styles.css";

followLinks();
startKeys();
startClock();
startDrafts();
start();
render(<App />, document.getElementById("app")!);
