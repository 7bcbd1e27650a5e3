// The call's own figures: how fast it usually is, how it travels, what got lost.

import { seconds, text } from "../strings.js";
import { percentile } from "./stages.js";

const ENOUGH = 3; // Of fewer answers nothing can be said to be seldom.

const make = (tag, content = "") => {
  const el = document.createElement(tag);
  el.textContent = content;
  return el;
};

/** Draw `{ totals, interruptions, transport, network }` into `el`; nothing before the first spoken turn. */
export function drawFigures(el, { totals, interruptions, transport, network }, shown) {
  el.hidden = !shown || totals.length === 0;
  if (el.hidden) return;
  const facts = [
    ["p50", seconds(percentile(totals, 0.5))],
    ...(totals.length >= ENOUGH ? [["p95", seconds(percentile(totals, 0.95))]] : []),
    ["turns", String(totals.length)],
    ["interruptions", String(interruptions)],
    ["transport", { webrtc: "WebRTC", websocket: "WebSocket" }[transport] ?? "–"],
  ];
  if (Number.isFinite(network?.roundTripMs)) facts.push(["roundTrip", `${Math.max(1, Math.round(network.roundTripMs))} ms`]);
  if (network?.packets > 0) facts.push(["loss", `${((100 * network.lost) / network.packets).toFixed(1)} %`]);
  const list = make("dl");
  for (const [name, value] of facts) {
    const pair = make("div");
    pair.dataset.figure = name;
    const term = make("dt", text(`figures.${name}`));
    if (text(`figures.${name}.title`)) term.title = text(`figures.${name}.title`);
    pair.append(term, make("dd", value));
    list.append(pair);
  }
  el.setAttribute("aria-label", text("figures"));
  el.replaceChildren(list);
}
