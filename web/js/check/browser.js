// What the browser itself has and allows.

const TICK_MS = 20;
const TICKS = 15;
const LATE_MS = 60; // Sound travels in pieces of 20 ms: a page that wakes this late drops some.

export async function secure() {
  const details = { address: location.origin };
  if (window.isSecureContext) return { status: "ok", code: "ok", details };
  return { status: "fail", code: "insecure", values: { address: location.origin, port: location.port || "80" }, details };
}

export async function browser() {
  const has = {
    WebRTC: "RTCPeerConnection" in window,
    // Both are kept from pages that are not secure, which is the fault of the address and not of the browser.
    AudioWorklet: "AudioWorkletNode" in window || !window.isSecureContext,
    WebSocket: "WebSocket" in window,
    getUserMedia: Boolean(navigator.mediaDevices?.getUserMedia) || !window.isSecureContext,
  };
  const missing = Object.keys(has).filter((name) => !has[name]);
  const setSinkId = "setSinkId" in HTMLMediaElement.prototype;
  const details = { browser: navigator.userAgent, missing: missing.join(", ") || "-", setSinkId };
  const values = { missing: missing.join(", ") };
  const noSound = !has.WebRTC && !(has.WebSocket && has.AudioWorklet);
  if (!has.getUserMedia || noSound) return { status: "fail", code: "unsupported", values, details };
  if (missing.length) return { status: "note", code: "partly", values, details };
  return { status: "ok", code: setSinkId ? "ok" : "no_sink", details };
}

/** Whether timers come when they should; browsers slow them down in tabs that nobody looks at. */
export async function clock() {
  let worst = 0;
  const began = performance.now();
  for (let tick = 0; tick < TICKS; tick += 1) {
    const before = performance.now();
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    worst = Math.max(worst, performance.now() - before - TICK_MS);
  }
  const late = (performance.now() - began) / TICKS - TICK_MS;
  const details = { late: `${late.toFixed(1)} ms`, worst: `${worst.toFixed(1)} ms` };
  if (late < LATE_MS) return { status: "ok", code: "ok", details };
  return { status: "note", code: document.hidden ? "hidden" : "slow", values: { late: Math.round(late) }, details };
}
