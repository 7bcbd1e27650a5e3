// The person's side of a call: the microphone, and whether it may be heard now.

import { Microphone } from "./microphone.js";
import { preferences } from "./preferences.js";

/** Event: "change". */
export class VoiceIn extends EventTarget {
  microphone = new Microphone();
  #muted = false;
  #pressed = false;

  constructor() {
    super();
    preferences.addEventListener("change", ({ detail: key }) => key === "mode" && this.#apply({ pressed: false }));
    for (const type of ["change", "track"]) this.microphone.addEventListener(type, () => this.#changed());
  }

  /** The server does not look for the end of a turn: the person's hand tells it. */
  get byHand() {
    return preferences.get("mode") !== "open";
  }

  /** Muted by the person. */
  get muted() {
    return this.#muted;
  }

  set muted(muted) {
    this.#apply({ muted });
  }

  /** Turns by hand: the person speaks now. */
  get pressed() {
    return this.#pressed;
  }

  set pressed(pressed) {
    this.#apply({ pressed });
  }

  /** As a call begins, or begins anew. */
  reset() {
    this.#apply({ muted: false, pressed: false });
  }

  #apply({ muted = this.#muted, pressed = this.#pressed }) {
    this.#muted = muted;
    this.#pressed = pressed;
    this.microphone.muted = muted || (this.byHand && !pressed);
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
