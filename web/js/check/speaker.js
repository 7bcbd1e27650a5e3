// Whether the browser lets the page play, and whether it is heard. Played as in a call: a stream on an audio element.

import { preferences } from "../preferences.js";

const NOTES_HZ = [523.25, 659.25, 783.99];
const NOTE_S = 0.22;

export async function playback(world) {
  const context = new AudioContext();
  const audio = document.getElementById("chime");
  const wanted = preferences.get("speaker");
  const details = { speaker: wanted ? "chosen" : "default" };
  let code = "ok";
  try {
    // Not waited for: where sound is not allowed some browsers leave this promise open for good.
    context.resume().catch(() => {});
    const out = context.createMediaStreamDestination();
    audio.srcObject = out.stream;
    if (wanted && audio.setSinkId) await audio.setSinkId(wanted).catch(() => (code = "other_speaker"));
    await audio.play();
    world.chime = () => chime(context, out);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    code = error.name === "NotAllowedError" ? "blocked" : "failed";
    details.error = error.name;
  }
  const stop = world.release;
  world.release = () => {
    stop?.();
    audio.srcObject = null;
    context.close();
  };
  details.context = context.state;
  return { status: { ok: "ok", other_speaker: "note" }[code] ?? "fail", code, details };
}

export async function speaker(world, prompt) {
  if (!world.chime) return { status: "skip", code: "unknown" };
  for (;;) {
    world.chime();
    const answer = await prompt.ask("check.speaker.asking", ["yes", "no", "replay"]);
    if (answer === "yes") return { status: "ok", code: "ok" };
    if (answer !== "replay") return { status: "fail", code: "unheard" };
  }
}

function chime(context, out) {
  NOTES_HZ.forEach((hz, i) => {
    const tone = context.createOscillator();
    const volume = context.createGain();
    const at = context.currentTime + 0.05 + i * NOTE_S;
    tone.frequency.value = hz;
    volume.gain.setValueAtTime(0, at);
    volume.gain.linearRampToValueAtTime(0.25, at + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.001, at + 2 * NOTE_S);
    tone.connect(volume).connect(out);
    tone.start(at);
    tone.stop(at + 2 * NOTE_S);
  });
}
