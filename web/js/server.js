// The HTTP side: configuration, signalling, and the token that goes with them.

import { Problem } from "./problem.js";

const STORED = "parley.token";
const TIMEOUT_MS = 15000;
const FAREWELL_MS = 2000;

let token = "";

function readStored() {
  try {
    return sessionStorage.getItem(STORED) ?? "";
  } catch {
    return "";
  }
}

export function setToken(value) {
  token = value.trim();
  try {
    sessionStorage.setItem(STORED, token);
  } catch {
    // Kept in memory only.
  }
}

/** Take the token out of the address (#token=...), so that it stays out of history and shared links; false if there is none. */
export function adoptToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    setToken(given);
    history.replaceState(null, "", location.pathname + location.search);
  } else if (!token) {
    token = readStored();
  }
  return given !== null && given !== "";
}

const headers = (extra = {}) => (token ? { ...extra, Authorization: `Bearer ${token}` } : extra);

async function request(path, options = {}) {
  try {
    return await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
  } catch {
    throw new Problem("server_unreachable");
  }
}

const KNOWN = new Set(["wrong_token", "wrong_origin", "session_limit", "resume_expired", "invalid_request"]);

async function refusal(response) {
  let code = "";
  try {
    code = (await response.json()).error.code;
  } catch {
    // A proxy in between answers with a page of its own.
  }
  const retryAfterS = Number(response.headers.get("retry-after")) || null;
  if (KNOWN.has(code)) return new Problem(code, { retryAfterS });
  if (response.status === 429 || response.status === 503) return new Problem("too_busy", { retryAfterS });
  if (response.status === 502 || response.status === 504) return new Problem("server_unreachable");
  return new Problem("server_error");
}

/** The `error` of an event that refuses a call over a WebSocket, as a Problem. */
export function refusedWith({ code, retry_after_s: retryAfterS = null }) {
  if (KNOWN.has(code)) return new Problem(code, { retryAfterS });
  return new Problem(retryAfterS === null ? "server_error" : "too_busy", { retryAfterS });
}

/** Settings for the page. Throws Problem: wrong_token, server_unreachable, server_error. */
export async function configuration() {
  const response = await request("config.json", { headers: headers() });
  if (!response.ok) throw await refusal(response);
  const config = await response.json();
  if (!config.token_accepted) throw new Problem("wrong_token");
  return config;
}

/** Send the offer; returns {sdp, type, call_id}. Throws Problem. `session` and `resume` as in docs/events.md. */
export async function offer({ sdp, type }, { session, resume } = {}) {
  const response = await request("offer", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify({ sdp, type, session, resume }),
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

/** Send a self-test's offer; returns {sdp, type}. Throws Problem. */
export async function offerCheck({ sdp, type }) {
  const response = await request("check/offer", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify({ sdp, type }),
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

/** The zip of a reply that the session of `resumeToken` gave, as a Blob. Throws Problem: turn_forgotten if there is none. */
export async function savedTurn(responseId, resumeToken) {
  const path = `sessions/turns/${encodeURIComponent(responseId)}.zip`;
  const response = await request(path, { headers: headers({ "x-resume-token": resumeToken }) });
  if (response.status === 404 || response.status === 410) throw new Problem("turn_forgotten");
  if (!response.ok) throw await refusal(response);
  return response.blob();
}

/** The address of a page of ours for another tab, which shares no memory with this one. */
export const forAnotherTab = (path) => (token ? `${path}#token=${encodeURIComponent(token)}` : path);

const urlSafe = (text) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** The subprotocols of our WebSockets; browsers let a page send a token no other way. */
export const protocols = () => ["parley", ...(token ? [`parley.token.${urlSafe(token)}`] : [])];

// Both outlive the page, and mostly nobody waits for them.
const away = (path, extra) => fetch(path, { method: "DELETE", headers: headers(extra), keepalive: true }).catch(() => {});

/** Tell the server that the call is over. */
export const hangUp = (callId) => away(`calls/${encodeURIComponent(callId)}`);

/** Tell the server that the page goes away, and may come back for its session. */
export const leave = (callId) => away(`calls/${encodeURIComponent(callId)}?leave=1`);

/** Tell the server that nobody will come back for the session of `resumeToken`; waits for its answer, but not for long. */
export const endSession = (resumeToken) =>
  Promise.race([away("sessions", { "x-resume-token": resumeToken }), new Promise((resolve) => setTimeout(resolve, FAREWELL_MS))]);
