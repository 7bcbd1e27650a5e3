// The microphone, and why it cannot be had.

import { Problem } from "./problem.js";

const CONSTRAINTS = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };

const CODES = {
  NotAllowedError: "microphone_denied",
  SecurityError: "microphone_denied",
  NotFoundError: "microphone_missing",
  OverconstrainedError: "microphone_missing",
  NotReadableError: "microphone_busy",
  AbortError: "microphone_busy",
};

/** One audio track from the default microphone. Throws Problem. */
export async function openMicrophone() {
  if (!window.isSecureContext) throw new Problem("insecure_context");
  if (!navigator.mediaDevices?.getUserMedia) throw new Problem("unsupported");
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: CONSTRAINTS });
    return stream.getAudioTracks()[0];
  } catch (error) {
    throw new Problem(CODES[error.name] ?? "microphone_busy");
  }
}
