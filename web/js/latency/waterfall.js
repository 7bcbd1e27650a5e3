// A turn's stages as a table whose middle column draws them: the same rows for the eye and for a screen reader.

import { seconds, text } from "../strings.js";

const SVG = "http://www.w3.org/2000/svg";
const BAR_HEIGHT = 12;
const LEAST_PERCENT = 0.6; // What took no time is still to be seen.

const make = (tag, className, content = "") => {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.textContent = content;
  return el;
};

const whole = (ms) => `${Math.round(ms)}`;

/** `{ rows, total, spoken, heard }` of stages.js, drawn. */
export function waterfall({ rows, total, spoken, heard }) {
  const table = make("table", "waterfall");
  const key = heard ? (spoken ? "latency.total" : "latency.totalTyped") : "latency.totalSilent";
  table.append(make("caption", "", text(key, { time: seconds(total) })));
  const head = make("tr");
  for (const name of ["stage", "", "took"]) {
    const cell = make("th", "", name && text(`latency.${name}`));
    cell.scope = "col";
    if (!name) cell.setAttribute("aria-hidden", "true");
    head.append(cell);
  }
  const top = make("thead", "hidden");
  top.append(head);
  const body = make("tbody");
  // What was begun before the person had stopped is drawn too, left of their end.
  const first = Math.min(0, ...rows.map(({ from }) => from));
  const last = Math.max(total, 1);
  const at = (ms) => (100 * (ms - first)) / (last - first);
  for (const { name, from, to } of rows) {
    const line = make("tr");
    line.dataset.stage = name;
    const label = make("th", "", text(`latency.${name}`));
    label.scope = "row";
    label.title = text(`latency.${name}.title`);
    const chart = make("td", "chart");
    chart.setAttribute("aria-hidden", "true");
    chart.append(bar(at(from), Math.max(LEAST_PERCENT, at(to) - at(from)), at(0)));
    const took = make("td", "took", whole(to - from));
    took.append(make("span", "unit", " ms"), make("span", "hidden", `, ${text("latency.fromTo", { from: whole(from), to: whole(to) })}`));
    line.append(label, chart, took);
    body.append(line);
  }
  table.append(top, body);
  return table;
}

function bar(x, width, origin) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", "100%");
  svg.setAttribute("height", String(BAR_HEIGHT));
  const rect = (name, attributes) => {
    const el = document.createElementNS(SVG, "rect");
    el.setAttribute("class", name);
    for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
    svg.append(el);
  };
  rect("ground", { x: "0", width: "100%", height: BAR_HEIGHT, rx: 3 });
  rect("bar", { x: `${Math.min(x, 100 - width).toFixed(2)}%`, width: `${width.toFixed(2)}%`, height: BAR_HEIGHT, rx: 3 });
  if (origin > 0) rect("origin", { x: `${origin.toFixed(2)}%`, width: 1, height: BAR_HEIGHT });
  return svg;
}
