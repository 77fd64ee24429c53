// Painting once a frame. State changes with each message; what depends on it is painted when the
// browser makes its next frame, and not at all while the tab is hidden.

const queue = new Set();
let asked = 0;

// Newest durations of the work of a frame, in ms, for the health page.
const spent = new Float64Array(256);
let frames = 0;

// paint calls a function in the next frame, once, however often it is asked for.
export function paint(f) {
  queue.add(f);
  asked ||= requestAnimationFrame(run);
}

// skip withdraws a function.
export function skip(f) {
  queue.delete(f);
}

function run() {
  asked = 0;
  const began = performance.now();
  const due = [...queue];
  queue.clear();
  for (const f of due) {
    try {
      f();
    } catch (err) {
      reportError(err); // of one view; the others are painted
    }
  }
  spent[frames++ % spent.length] = performance.now() - began;
}

// frameStats returns how many frames were painted and the median and greatest work of the newest.
export function frameStats() {
  const list = Array.from(spent.subarray(0, Math.min(frames, spent.length))).sort((a, b) => a - b);
  return { frames, median: list[list.length >> 1] ?? 0, most: list.at(-1) ?? 0 };
}
