// Each STUN and TURN server of the configuration, asked from this browser.

import { gathered } from "./candidates.js";

const LIMIT_MS = 5000;

// What a server says no with (RFC 8489, section 14.8; RFC 8656, section 19), and what browsers say for none (WebRTC, 4.8.2).
const ERRORS = { 401: "wrong_password", 403: "refused", 438: "wrong_password", 441: "wrong_password", 486: "full", 508: "full" };
const NO_ANSWER = 701;

export async function ice(world) {
  if (!window.RTCPeerConnection || !world.config) return { status: "skip", code: "unknown" };
  const servers = world.config.ice_servers ?? [];
  const connected = world.results.get("webrtc")?.status !== "fail";
  if (servers.length === 0) {
    if (connected) return { status: "ok", code: "none_needed" };
    const needed = world.results.get("webrtc").code === "servers_needed";
    return { status: needed ? "fail" : "note", code: needed ? "none_but_needed" : "none" };
  }
  const lines = await Promise.all(servers.map(ask));
  const bad = lines.filter(({ status }) => status !== "ok").length;
  const values = { bad, all: lines.length };
  if (bad === 0) return { status: "ok", code: "ok", values, lines };
  return { status: connected ? "note" : "fail", code: "some", values, lines };
}

async function ask(server) {
  const url = [server.urls].flat()[0];
  const relay = /^turns?:/i.test(url);
  const line = (status, code, values = {}) => ({ status, code, values: { url, ...values } });
  const errors = [];
  let found = false;
  let peer;
  try {
    peer = new RTCPeerConnection({ iceServers: [server], iceTransportPolicy: relay ? "relay" : "all" });
  } catch {
    return line("fail", "malformed"); // Or on a port that browsers keep away from.
  }
  const wanted = relay ? "relay" : "srflx";
  try {
    const first = new Promise((resolve) => {
      peer.addEventListener("icecandidate", ({ candidate }) => {
        if (candidate?.type === wanted || candidate?.candidate.includes(` typ ${wanted}`)) resolve((found = true));
      });
    });
    peer.addEventListener("icecandidateerror", ({ errorCode, errorText }) => errors.push({ errorCode, errorText }));
    peer.createDataChannel("check");
    await peer.setLocalDescription();
    const complete = await Promise.race([first, gathered(peer, LIMIT_MS)]);
    if (found) return line("ok", relay ? "turn_ok" : "stun_ok");
    // A server's own words count more than those of an interface from which it could not be reached.
    const said = errors.find(({ errorCode }) => errorCode !== NO_ANSWER) ?? errors[0];
    if (said && said.errorCode !== NO_ANSWER) {
      return line("fail", ERRORS[said.errorCode] ?? "said_no", { number: said.errorCode, said: said.errorText });
    }
    if (/lookup|resolve/i.test(said?.errorText ?? "")) return line("fail", "unresolved");
    // Without a translator of addresses in between, STUN has nothing to add, and some browsers then tell nothing.
    if (complete && !said && !relay) return line("ok", "stun_same");
    return line("fail", "no_answer", { seconds: LIMIT_MS / 1000 });
  } finally {
    peer.close();
  }
}
