// A real peer connection to the server, without sound: whether it comes about, over what, how fast, how lossy.

import { Problem } from "../problem.js";
import { offerCheck } from "../server.js";
import { candidates, gathered, isLoopbackHost, isPrivate, isPublicHost, kinds } from "./candidates.js";

const GATHERING_MS = 2000;
const CONNECT_MS = 8000;
const PINGS = 30;
const PING_EVERY_MS = 20; // As a call sends its sound.
const STRAGGLERS_MS = 600; // What comes later than this would be of no use to a conversation.
const SLOW_MS = 250;
const LOSSY = 0.05; // More than concealment makes unheard.

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function webrtc(world) {
  if (!window.RTCPeerConnection) return { status: "fail", code: "unsupported" };
  if (!world.config) return { status: "skip", code: "unknown" };
  let peer;
  try {
    peer = new RTCPeerConnection({ iceServers: world.config.ice_servers ?? [] });
  } catch (error) {
    return { status: "fail", code: "servers_refused", details: { error: error.name } };
  }
  // Neither ordered nor sent again, as sound is: only so can a lost ping be told from a late one.
  const channel = peer.createDataChannel("check", { ordered: false, maxRetransmits: 0 });
  try {
    await peer.setLocalDescription();
    const complete = await gathered(peer, GATHERING_MS);
    const ours = candidates(peer.localDescription.sdp);
    if (complete && ours.length === 0) return { status: "fail", code: "no_candidates" };
    const began = performance.now();
    const answer = await offerCheck(peer.localDescription);
    const theirs = candidates(answer.sdp);
    const details = { here: kinds(ours), there: kinds(theirs) };
    await peer.setRemoteDescription(answer);
    const limitMs = Math.min(CONNECT_MS, 1000 * (world.config.connect_timeout_s ?? Infinity)); // Calls wait no longer either.
    if (!(await opened(peer, channel, limitMs))) {
      const pairs = [...(await peer.getStats()).values()].filter(({ type }) => type === "candidate-pair");
      const sum = (key) => pairs.reduce((total, pair) => total + (pair[key] ?? 0), 0);
      details.checks = `${sum("requestsSent")} → ${sum("responsesReceived")}, ← ${sum("requestsReceived")}`;
      return { status: "fail", code: why(ours, theirs, world.config), values: { host: location.host }, details };
    }
    details.connected = `${Math.round(performance.now() - began)} ms`;
    return await measured(peer, channel, details);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { status: "fail", code: { too_busy: "busy", server_unreachable: "gone" }[error.code] ?? "refused" };
  } finally {
    peer.close();
  }
}

function opened(peer, channel, limitMs) {
  return new Promise((resolve) => {
    setTimeout(() => resolve(false), limitMs);
    channel.addEventListener("open", () => resolve(true));
    peer.addEventListener("connectionstatechange", () => {
      if (peer.connectionState === "failed") resolve(false);
    });
  });
}

/** The likeliest reason why nothing came through, most telling sign first. */
function why(ours, theirs, config) {
  const usable = ours.filter(({ protocol }) => protocol === "udp");
  if (usable.length === 0) return "no_candidates";
  if (isLoopbackHost(location.hostname)) return "tunnel";
  const servers = config.ice_servers ?? [];
  const onlyPrivate = theirs.every(({ address }) => isPrivate(address));
  if (isPublicHost(location.hostname) && onlyPrivate) return servers.length ? "servers_do_not_help" : "servers_needed";
  if (usable.every(({ hidden }) => hidden)) return "local_only";
  return "blocked";
}

async function measured(peer, channel, details) {
  const sent = new Map();
  const trips = [];
  channel.addEventListener("message", ({ data }) => {
    if (!sent.has(data)) return;
    trips.push(performance.now() - sent.get(data));
    sent.delete(data);
  });
  for (let ping = 0; ping < PINGS && channel.readyState === "open"; ping += 1) {
    sent.set(String(ping), performance.now());
    channel.send(String(ping));
    await after(PING_EVERY_MS);
  }
  const limit = performance.now() + STRAGGLERS_MS;
  while (sent.size && performance.now() < limit) await after(20);
  const loss = sent.size / (sent.size + trips.length);
  const { local, remote } = await chosen(peer);
  details.pair = `${local?.candidateType ?? "?"} ↔ ${remote?.candidateType ?? "?"} (${local?.relayProtocol ?? local?.protocol ?? "?"})`;
  if (trips.length === 0) return { status: "fail", code: "mute", details };
  const sorted = trips.toSorted((one, other) => one - other);
  const trip = sorted[Math.floor(sorted.length / 2)];
  details["round trip"] = `${trip.toFixed(1)} ms (${sorted[0].toFixed(1)}–${sorted.at(-1).toFixed(1)})`;
  details.lost = `${sent.size} / ${sent.size + trips.length}`;
  const values = { trip: Math.max(1, Math.round(trip)), loss: Math.round(loss * 100) };
  if (loss > LOSSY) return { status: "note", code: "lossy", values, details };
  if (trip > SLOW_MS) return { status: "note", code: "slow", values, details };
  const types = [local?.candidateType, remote?.candidateType];
  const code = types.includes("relay") ? "relay" : types.includes("srflx") ? "stun" : "direct";
  return { status: "ok", code, values, details };
}

async function chosen(peer) {
  const stats = await peer.getStats();
  const transport = [...stats.values()].find(({ type }) => type === "transport");
  const pair =
    stats.get(transport?.selectedCandidatePairId) ??
    [...stats.values()].find(({ type, selected, nominated, state }) => type === "candidate-pair" && (selected || (nominated && state === "succeeded")));
  return { local: stats.get(pair?.localCandidateId), remote: stats.get(pair?.remoteCandidateId) };
}
