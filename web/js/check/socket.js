// The way around blocked UDP: sound over a WebSocket, tried with pieces of a call's size and pace.

import { protocols } from "../server.js";

const PIECES = 25;
const PIECE_BYTES = 640; // 20 ms of s16le mono at 16 kHz
const EVERY_MS = 20;
const LIMIT_MS = 6000;
const SLOW_MS = 300;

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function socket(world) {
  if (!world.config) return { status: "skip", code: "unknown" };
  const began = performance.now();
  const link = new WebSocket(new URL("check/socket", location.href.replace(/^http/, "ws")), protocols());
  link.binaryType = "arraybuffer";
  let closed = null;
  link.addEventListener("close", (event) => (closed = event));
  try {
    if (!(await opened(link))) return { status: "fail", code: "blocked", details: { closed: closed?.code ?? "-" } };
    const connected = Math.round(performance.now() - began);
    const trips = [];
    const sent = [];
    link.addEventListener("message", () => trips.push(performance.now() - sent[trips.length])); // TCP keeps the order.
    for (let piece = 0; piece < PIECES && !closed; piece += 1) {
      sent.push(performance.now());
      link.send(new Uint8Array(PIECE_BYTES));
      await after(EVERY_MS);
    }
    const limit = performance.now() + 1000;
    while (trips.length < sent.length && !closed && performance.now() < limit) await after(20);
    const details = { connected: `${connected} ms`, "came back": `${trips.length} / ${PIECES}` };
    if (closed && trips.length === 0) {
      return { status: "fail", code: closed.code === 1013 ? "busy" : "blocked", details: { ...details, closed: closed.code } };
    }
    if (trips.length < PIECES) return { status: "fail", code: "stalls", values: { back: trips.length, all: PIECES }, details };
    const sorted = trips.toSorted((one, other) => one - other);
    const worst = sorted.at(-1);
    const trip = sorted[Math.floor(sorted.length / 2)];
    details["round trip"] = `${trip.toFixed(1)} ms (${sorted[0].toFixed(1)}–${worst.toFixed(1)})`;
    const values = { trip: Math.max(1, Math.round(trip)), worst: Math.round(worst) };
    return { status: worst > SLOW_MS ? "note" : "ok", code: worst > SLOW_MS ? "slow" : "ok", values, details };
  } finally {
    link.close();
  }
}

function opened(link) {
  return new Promise((resolve) => {
    setTimeout(() => resolve(false), LIMIT_MS);
    link.addEventListener("open", () => resolve(true));
    link.addEventListener("close", () => resolve(false));
  });
}
