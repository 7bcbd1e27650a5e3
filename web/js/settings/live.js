// What is chosen takes effect at once, also in a running call; what cannot be had is taken back and said.

import { asProblem } from "../problem.js";
import { preferences, sessionChange } from "../preferences.js";
import { text } from "../strings.js";
import { keepOnSpeaker } from "./speaker.js";

const MICROPHONE = new Set(["microphone", "noiseSuppression", "echoCancellation"]);

/** Event: "refused" (detail: {key, message}). */
export class LiveSettings extends EventTarget {
  #session;
  #asked = []; // {id, key, before}: session.update events on their way, oldest first.
  #accepted = {}; // What held before, by key; undefined where the server's own did.
  #count = 0;
  #reverting = false;

  /** `session`: the page's Session; `audio`: the element that plays replies. */
  constructor(session, audio) {
    super();
    this.#session = session;
    keepOnSpeaker(audio);
    preferences.addEventListener("change", ({ detail: key }) => this.#apply(key));
    session.addEventListener("message", ({ detail: event }) => this.#receive(event));
    session.addEventListener("change", () => session.phase === "call" || (this.#asked.length = 0));
    for (const key of ["voice", "speed", "spokenLanguage", "mode", "instructions"]) this.#accepted[key] = chosen(key);
    this.#drawCaptions();
  }

  /** Whether the server's `error` event refuses something that was asked for here. */
  owns(event) {
    return event.type === "error" && this.#isOwn(event.error?.event_id);
  }

  #isOwn(id) {
    return typeof id === "string" && id.startsWith("preference-");
  }

  #apply(key) {
    if (key === "captions") this.#drawCaptions();
    if (MICROPHONE.has(key) && this.#session.hasMicrophone) {
      this.#session.microphone.open().catch((error) => this.#refuse(key, text(`${asProblem(error).code}.text`)));
    }
    if (key in this.#accepted) this.#ask(key);
  }

  #ask(key) {
    const before = this.#accepted[key];
    this.#accepted[key] = chosen(key);
    if (this.#reverting) return;
    const session = sessionChange(key, this.#session.config);
    const id = `preference-${key}-${++this.#count}`;
    if (session && this.#session.send({ type: "session.update", event_id: id, session })) this.#asked.push({ id, key, before });
  }

  #receive(event) {
    if (event.type === "session.updated") this.#asked.shift();
    if (!this.owns(event)) return;
    const at = this.#asked.findIndex(({ id }) => id === event.error.event_id);
    if (at < 0) return;
    const [{ key, before }] = this.#asked.splice(at, 1);
    if (!this.#asked.some((later) => later.key === key)) this.#takeBack(key, before);
    this.#refuse(key, event.error.message);
  }

  /** The server goes on with what held before, and so do calls to come. */
  #takeBack(key, before) {
    this.#reverting = true;
    if (before === undefined) preferences.unset(key);
    else preferences.set(key, before);
    this.#reverting = false;
  }

  #refuse(key, message) {
    this.dispatchEvent(new CustomEvent("refused", { detail: { key, message } }));
  }

  #drawCaptions() {
    document.documentElement.dataset.captions = preferences.get("captions");
  }
}

const chosen = (key) => (preferences.isSet(key) ? preferences.get(key) : undefined);
