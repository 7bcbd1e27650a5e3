// Trying out the microphone and the speaker.

import { play } from "./speaker.js";

export const RECORD_MS = 3000;
const CHIME_HZ = [523.25, 659.25, 783.99]; // C5, E5, G5: pleasant, and in the middle of what small speakers can do.
const NOTE_APART_S = 0.14;
const NOTE_S = 0.9;
const PEAK = 0.12; // About -18 dB: clear, and frightens nobody.
const LOOK_MS = 50;
const WEAK = 0.12; // Of the meter's scale (levels.js): below, a recogniser hears little.
const FAINT = 0.4;

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Three notes through the chosen speaker. Throws if the browser refuses to play. */
export async function chime() {
  const context = new AudioContext();
  try {
    const out = context.createMediaStreamDestination();
    await context.resume();
    const start = context.currentTime + 0.1;
    const notes = CHIME_HZ.map((hz, i) => note(context, out, hz, start + i * NOTE_APART_S));
    await play(out.stream, Promise.all(notes));
  } finally {
    context.close();
  }
}

function note(context, out, hz, at) {
  const tone = new OscillatorNode(context, { frequency: hz, type: "sine" });
  const volume = new GainNode(context, { gain: 0 });
  volume.gain.setValueAtTime(0, at);
  volume.gain.linearRampToValueAtTime(PEAK, at + 0.015);
  volume.gain.exponentialRampToValueAtTime(0.0005, at + NOTE_S);
  tone.connect(volume).connect(out);
  tone.start(at);
  tone.stop(at + NOTE_S);
  return new Promise((resolve) => tone.addEventListener("ended", resolve));
}

export const canRecord = () => "MediaRecorder" in window;

/** Record `track` for RECORD_MS. Returns `{url, verdict}`: "none", "faint" or "good", after what `level()` (0 to 1) read. */
export async function record(track, level) {
  const recorder = new MediaRecorder(new MediaStream([track]));
  const pieces = [];
  recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
  const stopped = new Promise((resolve) => recorder.addEventListener("stop", resolve));
  recorder.start();
  let loudest = 0;
  const end = performance.now() + RECORD_MS;
  while (performance.now() < end && recorder.state === "recording") {
    await after(LOOK_MS);
    loudest = Math.max(loudest, level());
  }
  if (recorder.state === "recording") recorder.stop();
  await stopped;
  const url = URL.createObjectURL(new Blob(pieces, { type: recorder.mimeType }));
  return { url, verdict: loudest < WEAK ? "none" : loudest < FAINT ? "faint" : "good" };
}
