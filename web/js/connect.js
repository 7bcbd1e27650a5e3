// How sound gets to the server and back: WebRTC where UDP passes, a WebSocket where it does not.
//
//   connect(config, track, { session, resume, listen }) -> a connected call; throws Problem.
//
// `config` is /config.json, `track` the microphone or null, `session` and `resume` are for the server (docs/events.md).
// `listen(call)` is told of each call that is tried, before it connects, so that no event is missed; it may be two.
// A call has `transport`: "webrtc" or "websocket", the same methods (call.js says which) and the events
// "message", "lost" and, where the browser wants a click before it plays sound, "blocked"; `wake()` goes into that click.

import { Call } from "./call.js";
import { Problem } from "./problem.js";
import { SocketCall } from "./socket-call.js";

const PATIENCE_S = 4; // A peer connection that can come about does so in less.
const REMEMBERED_MS = 10 * 60 * 1000; // Then WebRTC, which is better, gets another try.
const STORED = "parley.websocketUntil";
const IN_THE_WAY = new Set(["no_connection", "unsupported"]); // Not the server's refusal, but what lies between.

export async function connect(config, track, { session, resume, listen = () => {} } = {}) {
  const ways = [overWebRtc, overWebSocket];
  if (remembered()) ways.reverse();
  let first = null;
  for (const way of ways) {
    try {
      const call = way(config, listen);
      await call.connect(track, { session, resume });
      remember(call.transport === "websocket");
      return call;
    } catch (problem) {
      if (!IN_THE_WAY.has(problem.code)) throw problem;
      first ??= problem;
    }
  }
  throw first.code === "unsupported" ? first : new Problem("no_connection");
}

function overWebRtc(config, listen) {
  const patienceS = Math.min(PATIENCE_S, config.connect_timeout_s ?? PATIENCE_S);
  const call = new Call({ ...config, connect_timeout_s: patienceS });
  listen(call);
  return call;
}

function overWebSocket(config, listen) {
  const call = new SocketCall(config);
  listen(call);
  return call;
}

// For this visit and this network, since WebRTC costs its patience each time that it is tried in vain.
let until = readStored();
let network = navigator.connection?.type;
addEventListener("online", () => keep(0));
navigator.connection?.addEventListener?.("change", () => {
  if (navigator.connection.type !== network) keep(0); // It also tells of every change of speed.
  network = navigator.connection.type;
});

function readStored() {
  try {
    return Number(sessionStorage.getItem(STORED)) || 0;
  } catch {
    return 0;
  }
}

function keep(moment) {
  until = moment;
  try {
    sessionStorage.setItem(STORED, String(until));
  } catch {
    // Then until the page is loaded again.
  }
}

function remembered() {
  return Date.now() < until;
}

function remember(socket) {
  if (!socket) keep(0);
  else if (!remembered()) keep(Date.now() + REMEMBERED_MS); // Not longer each time, or WebRTC would get no other try.
}
