// The vendored libraries, imported in one place.
import { h, render, Fragment } from "../common/vendor/preact-11.2.0.js";
import htm from "../common/vendor/htm-3.1.1.js";

export const html = htm.bind(h);
export { h, render, Fragment };
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../common/vendor/hooks-11.2.0.js";
export { signal, computed, effect, batch } from "../common/vendor/signals-2.11.4.js";
