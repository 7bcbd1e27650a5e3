// Recording a call, if the server allows it and the person wants it; nothing is recorded before the server has agreed.

import { preferences } from "./preferences.js";
import { Problem } from "./problem.js";
import { canRecord, Recorder } from "./recorder.js";
import { fileName } from "./saving.js";

const ASKED = "recording"; // The event_id by which a refusal is known.

/** Events: "change", "problem" (detail: Problem). */
export class Recording extends EventTarget {
  /** The last recording: {blob, name, seconds, downloaded}, or null. */
  kept = null;
  #session;
  #recorder = null;
  #wanted = false;
  #inCall = false;

  constructor(session) {
    super();
    this.#session = session;
    session.addEventListener("streams", () => this.#streamsChanged());
    session.addEventListener("change", () => this.#phaseChanged());
    session.addEventListener("message", ({ detail }) => this.#receive(detail));
  }

  /** Whether there is anything to be switched on. */
  get available() {
    return this.#session.phase === "call" && this.#session.config.recording === true && canRecord();
  }

  get on() {
    return this.#recorder !== null;
  }

  get seconds() {
    return this.on ? Math.floor(this.#recorder.seconds) : 0;
  }

  /** Begin, or end and keep. */
  toggle() {
    if (this.on) this.stop();
    else if (this.available) this.#ask();
  }

  async stop() {
    const recorder = this.#recorder;
    if (!recorder) return;
    this.#recorder = null;
    this.#wanted = false;
    this.#session.send({ type: "parley.recording", event_id: ASKED, on: false });
    const seconds = Math.round(recorder.seconds);
    const name = fileName(recorder.extension, recorder.startedAt);
    this.#changed();
    const blob = await recorder.stop();
    if (blob.size) this.kept = { blob, name, seconds, downloaded: false };
    this.#changed();
  }

  downloaded() {
    this.kept = { ...this.kept, downloaded: true };
    this.#changed();
  }

  discard() {
    this.kept = null;
    this.#changed();
  }

  #ask() {
    this.#wanted = true;
    this.#session.send({ type: "parley.recording", event_id: ASKED, on: true });
  }

  #receive(event) {
    if (event.type === "parley.recording" && event.on && this.#wanted && !this.on) this.#begin();
    if (event.type === "parley.recording" && !event.on && this.on) this.stop();
    if (event.type === "error" && event.error?.event_id === ASKED) {
      this.#wanted = false;
      this.stop();
      this.dispatchEvent(new CustomEvent("problem", { detail: new Problem("recording_refused") }));
    }
  }

  #begin() {
    try {
      this.#recorder = new Recorder();
    } catch (error) {
      console.error(error);
      this.#wanted = false;
      this.dispatchEvent(new CustomEvent("problem", { detail: new Problem("recording_failed") }));
      return;
    }
    this.kept = null;
    this.#recorder.addEventListener("stopped", () => this.stop());
    this.#recorder.hear(this.#session.streams);
    this.#changed();
  }

  #streamsChanged() {
    if (this.#session.phase !== "call") return;
    const begins = !this.#inCall;
    this.#inCall = true;
    // The server that the page has come back to may be another one, which allows no recording.
    if (this.on && !this.available) this.stop();
    if (this.on) this.#recorder.hear(this.#session.streams);
    // A session that was taken up by another transport has to agree again.
    if (this.available && (this.#wanted || (begins && preferences.get("record")))) this.#ask();
  }

  #phaseChanged() {
    const { phase } = this.#session;
    if (["call", "reconnecting"].includes(phase)) return;
    this.#inCall = this.#wanted = false;
    this.stop();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** 1:05 */
export const duration = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
