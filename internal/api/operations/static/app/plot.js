// A plot of series against time, which grows to the right.
import { html, useEffect, useRef } from "./lib.js";
import { clock } from "./format.js";
import { theme } from "./prefs.js";
import { points, series } from "./poll.js";

const { uPlot } = globalThis; // of a classic script in index.html, which runs before modules

const height = 150;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Plot shows some series. lines are [name of the series, label, custom property of its colour].
// format makes a text of a value. whole means that there are only whole numbers.
export function Plot({ title, lines, format, whole }) {
  const ref = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const box = ref.current;
    const size = () => ({ width: Math.max(200, box.clientWidth), height });
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${colour("--sans")}` };
    plot.current = new uPlot({
      ...size(), legend: { show: false }, cursor: { y: false },
      scales: { x: { time: true }, y: { range: (_, __, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, values: (_, list) => list.map((seconds) => clock(seconds * 1000)), space: 80 },
        { ...axis, size: 64, values: (_, list) => list.map((v) => format(v)), ...(whole && { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 100_000] }) },
      ],
      series: [{}, ...lines.map(([, label, property]) => ({ label, stroke: colour(property), width: 1.5, points: { show: false } }))],
    }, data(lines), box);
    const resized = new ResizeObserver(() => box.isConnected && plot.current.setSize(size()));
    resized.observe(box);
    return () => {
      resized.disconnect();
      plot.current.destroy();
    };
  }, [theme.value]);
  useEffect(() => plot.current.setData(data(lines)), [points.value]);
  return html`<figure class="plot" role="img" aria-label=${`${title}: ${lines.map(([name, label]) => `${label} ${format(series[name].at(-1))}`).join(", ")}`}>
    <figcaption><h2>${title}</h2>${lines.map(([name, label, property]) => html`<span class="key"><i class=${`swatch ${property.slice(2)}`}></i>${label} <b class="num">${format(series[name].at(-1))}</b></span>`)}</figcaption>
    <div ref=${ref}></div>
  </figure>`;
}

// data returns the series as uPlot takes them: null is a gap.
function data(lines) {
  return [[...series.time], ...lines.map(([name]) => series[name].map((v) => v ?? null))];
}
