// How long nobody has used the console. Input in any tab of the browser counts.
import { keep, stored } from "./prefs.js";

const pause = 5000; // between two notes for the other tabs
let newest = Date.now();
let noted = 0;

function used() {
  newest = Date.now();
  if (newest - noted < pause) return;
  noted = newest;
  keep("used", String(newest));
}

for (const kind of ["pointerdown", "pointermove", "keydown", "wheel"]) addEventListener(kind, used, { capture: true, passive: true });

// unused returns the time since the newest input, in milliseconds.
export const unused = () => Date.now() - Math.max(newest, Number(stored("used")) || 0);
