import { render } from "preact";
import { App } from "./app";
import { startClock } from "./clock";
import { start } from "./data/live";
import { startKeys } from "./keys";
import { followLinks } from "./router";
import "./styles.css";

followLinks();
startKeys();
startClock();
start();
render(<App />, document.getElementById("app")!);
