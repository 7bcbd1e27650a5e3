// The state in words and the buttons below it.

import { keepFocus } from "./focus.js";
import { setIcon } from "./icons.js";
import { preferences } from "./preferences.js";
import { text } from "./strings.js";

const at = (id) => document.getElementById(id);
const BUSY = new Set(["permission", "connecting", "full"]);
// What a screen reader is told of; the rest of a conversation's to and fro is heard.
const TOLD = new Set(["permission", "connecting", "reconnecting", "full", "left", "elsewhere", "ended", "muted"]);

/** Draws `session`; `act` has a function for each button: talk, mute, stop, anew, press, release. */
export class Controls {
  #session;
  #orb;
  #talk = at("talk");
  #mute = at("mute");
  #stop = at("stop");
  #anew = at("anew");
  #press = at("press");
  #pointer = matchMedia("(hover: hover) and (pointer: fine)"); // Phones have no keys to press.
  #countdown = null;
  #told = "";
  #unheard = false;

  constructor(session, orb, act) {
    this.#session = session;
    this.#orb = orb;
    this.#talk.addEventListener("click", ({ detail }) => {
      if (detail > 1) return; // A double click means what a click means; its second half would end the call.
      act.talk();
      // After a click with the mouse the space key must not end the call.
      if (detail > 0) this.#talk.blur();
    });
    // A key that is held would begin and end calls by turns.
    this.#talk.addEventListener("keydown", (event) => event.repeat && event.preventDefault());
    this.#mute.addEventListener("click", ({ detail }) => {
      act.mute();
      if (detail > 0) this.#mute.blur();
    });
    this.#stop.addEventListener("click", () => act.stop());
    this.#anew.addEventListener("click", () => act.anew());
    this.#hold(act);
  }

  /** What the person sees: the phase outside a call, the server's state inside, and whether they can be heard. */
  get shown() {
    const { phase, state, voiceIn, microphone, hasMicrophone } = this.#session;
    if (phase !== "call") return phase;
    if (state === "speaking" || state === "thinking") return state;
    if (!hasMicrophone) return "typing";
    if (voiceIn.muted || microphone.mutedBySystem) return "muted";
    if (voiceIn.byHand && !voiceIn.pressed) return state === "hearing" ? state : "ready";
    return state;
  }

  draw() {
    const { shown } = this;
    if (shown !== "ready" && shown !== "hearing") this.#unheard = false;
    const { phase, microphone, voiceIn, transport } = this.#session;
    const { dataset } = document.body;
    dataset.phase = phase;
    dataset.state = shown;
    dataset.turns = voiceIn.byHand ? "hand" : "open";
    this.#orb.state = shown === "typing" ? "listening" : shown;
    setText(at("state"), text(`state.${shown}`));
    setText(at("hint"), this.#hint(shown, microphone.mutedBySystem));
    at("way").hidden = transport !== "websocket";
    keepFocus(() => this.#drawButtons(shown), this.#talk);
    this.#tell(shown);
    this.#count();
  }

  /** The person let go of the button, and nothing had come. */
  nothingHeard() {
    if (!this.#session.voiceIn.byHand || this.#session.phase !== "call") return;
    this.#unheard = true;
    this.announce(text("nothingHeard"));
    this.draw();
  }

  /** Say `words` to screen readers. */
  announce(words) {
    at("announcer").textContent = words;
  }

  #hint(shown, mutedBySystem) {
    const { retryAt, trouble, voiceIn } = this.#session;
    if (shown === "muted" && mutedBySystem) return text("hint.mutedBySystem");
    if (shown === "full" && retryAt !== null) {
      return text("hint.waiting", { seconds: Math.max(0, Math.ceil((retryAt - performance.now()) / 1000)) });
    }
    if (shown === "reconnecting") return text(`hint.reconnecting.${trouble}`) || text("hint.reconnecting");
    const mode = voiceIn.byHand ? `.${this.#mode}` : "";
    const keys = this.#pointer.matches ? ".keys" : "";
    const key = [`${mode}${keys}`, mode, keys, ""].find((end) => text(`hint.${shown}${end}`));
    const hint = text(`hint.${shown}${key ?? ""}`);
    return this.#unheard ? `${text("nothingHeard")} ${hint}` : hint;
  }

  get #mode() {
    return preferences.get("mode");
  }

  #drawButtons(shown) {
    const { phase, active, hasMicrophone, voiceIn, microphone } = this.#session;
    const inCall = phase === "call";
    const label =
      inCall || phase === "reconnecting" ? "end"
      : active && BUSY.has(phase) ? "cancel"
      : { ended: "talkAgain", left: "goOn", elsewhere: "takeBack" }[phase] ?? "talk";
    setText(at("talk-label"), text(label));
    setIcon(this.#talk, active ? "i-end" : "i-mic");
    this.#talk.title = text(label);
    this.#anew.hidden = phase !== "left" && phase !== "elsewhere";
    const byHand = inCall && voiceIn.byHand;
    this.#press.hidden = !byHand;
    this.#press.toggleAttribute("data-on", voiceIn.pressed); // Its label tells the same, so it is no aria-pressed.
    setText(at("press-label"), text(`press.${this.#mode}${voiceIn.pressed ? ".on" : ""}`));
    this.#mute.hidden = !inCall || byHand;
    const listening = hasMicrophone && !voiceIn.muted && !microphone.mutedBySystem;
    this.#mute.toggleAttribute("data-on", !listening);
    const muteLabel = text(!hasMicrophone ? "useMicrophone" : voiceIn.muted ? "unmute" : "mute");
    this.#mute.setAttribute("aria-label", muteLabel);
    this.#mute.title = this.#pointer.matches ? text("withKey", { what: muteLabel, key: text("key.space") }) : muteLabel;
    setIcon(this.#mute, listening ? "i-mic" : "i-mic-off");
    this.#stop.hidden = !inCall;
    this.#stop.disabled = shown !== "speaking" && shown !== "thinking";
  }

  /** In mode "push" the button is held, in mode "hold" it is pressed once to begin and once more to send. */
  #hold(act) {
    const button = this.#press;
    button.addEventListener("pointerdown", (event) => {
      if (this.#mode !== "push" || event.button !== 0) return;
      button.setPointerCapture(event.pointerId);
      act.press();
    });
    for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) {
      button.addEventListener(type, () => this.#mode === "push" && act.release());
    }
    button.addEventListener("contextmenu", (event) => event.preventDefault()); // A long press on a phone.
    button.addEventListener("click", () => {
      if (this.#mode === "hold") act.toggle();
    });
    button.addEventListener("keydown", (event) => {
      if (this.#mode !== "push" || event.repeat || (event.key !== " " && event.key !== "Enter")) return;
      event.preventDefault();
      act.press();
    });
    button.addEventListener("keyup", (event) => {
      if (this.#mode === "push" && (event.key === " " || event.key === "Enter")) act.release();
    });
    button.addEventListener("blur", () => this.#mode === "push" && act.release());
  }

  #tell(shown) {
    const told = shown === "reconnecting" ? `${shown} ${this.#session.trouble}` : shown;
    if (told === this.#told) return;
    const before = this.#told;
    this.#told = told;
    if (shown === "reconnecting" || shown === "elsewhere") this.announce(`${text(`state.${shown}`)} ${at("hint").textContent}`);
    else if (TOLD.has(shown)) this.announce(text(`state.${shown}`));
    else if (TOLD.has(before.split(" ")[0])) this.announce(text(`state.${shown}`));
  }

  #count() {
    const counting = this.#session.retryAt !== null;
    if (counting && this.#countdown === null) this.#countdown = setInterval(() => this.draw(), 1000);
    if (!counting && this.#countdown !== null) {
      clearInterval(this.#countdown);
      this.#countdown = null;
    }
  }
}

function setText(el, words) {
  if (el.textContent !== words) el.textContent = words;
}
