// The microphone that the preferences ask for, why it cannot be had, and what happens when it goes away.

import { preferences } from "./preferences.js";
import { asProblem, Problem } from "./problem.js";

const CODES = {
  NotAllowedError: "microphone_denied",
  SecurityError: "microphone_denied",
  NotFoundError: "microphone_missing",
  OverconstrainedError: "microphone_missing",
  NotReadableError: "microphone_busy",
  AbortError: "microphone_busy",
};

const GONE = new Set(["NotFoundError", "OverconstrainedError"]);

const constraints = (deviceId) => ({
  audio: {
    echoCancellation: preferences.get("echoCancellation"),
    noiseSuppression: preferences.get("noiseSuppression"),
    autoGainControl: true,
    ...(deviceId && { deviceId: { exact: deviceId } }),
  },
});

const open = async (deviceId) => (await navigator.mediaDevices.getUserMedia(constraints(deviceId))).getAudioTracks()[0];

const problem = (error) => new Problem(CODES[error.name] ?? "microphone_busy");

/**
 * One audio track, as the preferences say; from the system's default microphone if the chosen one is gone
 * (`isChosen` tells). Throws Problem.
 */
export async function openMicrophone() {
  if (!window.isSecureContext) throw new Problem("insecure_context");
  if (!navigator.mediaDevices?.getUserMedia) throw new Problem("unsupported");
  const chosen = preferences.get("microphone");
  try {
    return await open(chosen);
  } catch (error) {
    if (!chosen || !GONE.has(error.name)) throw problem(error);
  }
  return open("").catch((error) => {
    throw problem(error);
  });
}

/** Whether `track` comes from the microphone that was chosen; true where none was. */
export function isChosen(track) {
  const chosen = preferences.get("microphone");
  const { deviceId } = track.getSettings();
  return !chosen || !deviceId || deviceId === chosen;
}

/** Whether the chosen microphone is plugged in; where none was chosen, whether there is any. */
async function isHere() {
  const chosen = preferences.get("microphone");
  const devices = (await navigator.mediaDevices?.enumerateDevices?.().catch(() => [])) ?? [];
  return devices.some(({ kind, deviceId }) => kind === "audioinput" && (!chosen || deviceId === chosen));
}

/**
 * The microphone of one call after the other.
 * Events: "track" (`track` is another one, or null), "change" (the system muted or unmuted it), "problem" (detail:
 * Problem; the call can go on).
 */
export class Microphone extends EventTarget {
  track = null;
  #muted = false;
  #paused = false;
  #opening = null;
  #lost = false; // It was unplugged while in use: to be had again when it comes back.

  constructor() {
    super();
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.#devicesChanged());
  }

  /** Muted by the person. */
  get muted() {
    return this.#muted;
  }

  set muted(muted) {
    this.#muted = muted;
    this.#enable();
  }

  /** Whether what listens is what was chosen. */
  get chosen() {
    return this.track !== null && isChosen(this.track);
  }

  /** Muted by the system, or by a switch on the device. */
  get mutedBySystem() {
    return this.track?.muted ?? false;
  }

  /** While it is tried out in the settings, the call does not hear it. */
  set paused(paused) {
    this.#paused = paused;
    this.#enable();
  }

  /** Take the microphone of the preferences, in place of the one in use. Throws Problem; then that one stays. */
  async open() {
    const opening = (this.#opening = Symbol("opening"));
    const track = await openMicrophone();
    if (this.#opening !== opening) return track.stop(); // Closed meanwhile, or another choice was made.
    const old = this.track;
    this.#lost = false;
    this.track = track;
    this.#enable();
    track.addEventListener("ended", () => this.track === track && this.#lose(track));
    for (const type of ["mute", "unmute"]) track.addEventListener(type, () => this.dispatchEvent(new Event("change")));
    this.dispatchEvent(new Event("track"));
    old?.stop();
    if (!isChosen(track)) this.#report(new Problem("microphone_replaced"));
  }

  close() {
    this.#opening = null;
    this.#lost = false;
    this.track?.stop();
    this.track = null;
  }

  #enable() {
    if (this.track) this.track.enabled = !this.#muted && !this.#paused;
  }

  /** Another one takes over, if there is one. */
  async #lose({ label }) {
    this.track = null;
    this.#lost = true;
    this.dispatchEvent(new Event("track"));
    try {
      await this.open();
    } catch {
      if (this.#lost) this.#report(new Problem("microphone_lost"));
      return;
    }
    // Where one was chosen, `open` has told it.
    if (this.track && isChosen(this.track) && this.track.label !== label) this.#report(new Problem("microphone_replaced"));
  }

  /** What was unplugged came back. */
  async #devicesChanged() {
    const wanted = () => this.#lost || (this.track !== null && !isChosen(this.track));
    if (wanted() && (await isHere()) && wanted()) this.open().catch((error) => this.#lost || this.#report(asProblem(error)));
  }

  #report(detail) {
    this.dispatchEvent(new CustomEvent("problem", { detail }));
  }
}
