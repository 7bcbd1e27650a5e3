// The microphone: whether it may be used, is there, and hears anything.

import { isChosen, openMicrophone } from "../microphone.js";
import { Problem } from "../problem.js";

const LISTEN_MS = 8000;
const MUTED_MS = 3000; // Not one sample by then: waiting for words would be in vain.
const LOOK_MS = 40;
const SPEECH_MS = 480; // Enough above the noise to be a word and no click.
const SPEECH_DB = -42; // RMS, relative to full scale.
const SILENT_DB = -85; // Even a quiet room is louder; below this something is switched off.
const CLIPPED = 0.99;
const CLIPPED_SHARE = 0.01;

const CODES = { microphone_denied: "denied", microphone_missing: "missing", microphone_busy: "busy", insecure_context: "insecure", unsupported: "unsupported" };

export async function microphone(world, prompt) {
  if (window.isSecureContext) prompt.say("check.microphone.asking");
  let track;
  try {
    track = await openMicrophone();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { status: "fail", code: CODES[error.code] ?? "busy" };
  }
  world.track = track;
  world.release = () => track.stop();
  const { sampleRate, channelCount, echoCancellation, noiseSuppression } = track.getSettings();
  const inputs = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "audioinput");
  const details = { microphones: inputs.length, rate: `${sampleRate ?? "?"} Hz`, channels: channelCount ?? "?", echoCancellation, noiseSuppression };
  if (!isChosen(track)) return { status: "note", code: "other", values: { name: track.label }, details };
  return { status: "ok", code: "ok", values: { name: track.label || "-" }, details };
}

export async function level(world, prompt) {
  if (!world.track) return { status: "skip", code: "unknown" };
  const context = new AudioContext();
  try {
    await context.resume();
    const analyser = context.createAnalyser();
    analyser.fftSize = 2048;
    context.createMediaStreamSource(new MediaStream([world.track])).connect(analyser);
    return await listened(world.track, analyser, prompt);
  } finally {
    await context.close();
  }
}

async function listened(track, analyser, prompt) {
  const samples = new Float32Array(analyser.fftSize);
  const show = prompt.meter("check.level.speak");
  const spoken = [];
  let peak = -Infinity;
  let clipped = 0;
  let looks = 0;
  const began = performance.now();
  const over = () => performance.now() - began > (peak < SILENT_DB ? MUTED_MS : LISTEN_MS);
  while (!over() && spoken.length * LOOK_MS < SPEECH_MS && track.readyState === "live") {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    analyser.getFloatTimeDomainData(samples);
    const db = 10 * Math.log10(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
    looks += 1;
    clipped += samples.filter((sample) => Math.abs(sample) >= CLIPPED).length;
    peak = Math.max(peak, db);
    if (db > SPEECH_DB) spoken.push(db);
    show(Math.max(0, Math.min(1, (db + 70) / 60)));
  }
  const loudest = Math.round(peak);
  const details = { loudest: Number.isFinite(peak) ? `${loudest} dBFS` : "−∞ dBFS", clipped: `${((100 * clipped) / (looks * samples.length)).toFixed(1)} %` };
  const values = { db: loudest };
  if (track.readyState !== "live") return { status: "fail", code: "lost", details };
  if (track.muted || peak < SILENT_DB) return { status: "fail", code: "muted", details };
  if (spoken.length * LOOK_MS < SPEECH_MS) return { status: "fail", code: "quiet", values, details };
  if (clipped / (looks * samples.length) > CLIPPED_SHARE) return { status: "note", code: "loud", values, details };
  return { status: "ok", code: "ok", values, details };
}
