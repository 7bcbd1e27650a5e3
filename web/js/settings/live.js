// What is chosen takes effect at once, also in a running call; what cannot be had is taken back and said.

import { asProblem } from "../problem.js";
import { preferences, sessionChange } from "../preferences.js";
import { text } from "../strings.js";
import { keepOnSpeaker } from "./speaker.js";

const TOLD = ["voice", "speed", "spokenLanguage", "mode", "instructions"]; // To the server.
const ID = "preference-"; // Begins the event_id of what is asked for here.
const NO_CALL = new Set(["idle", "ended"]); // Nor one that could be gone on with.
const MICROPHONE = new Set(["microphone", "noiseSuppression", "echoCancellation"]);

/** Event: "refused" (detail: {key, message}). */
export class LiveSettings extends EventTarget {
  #session;
  #asked = []; // {id, key, before}: session.update events on their way, oldest first.
  #accepted = {}; // What holds in the session, by key; undefined where the server's own does.
  #count = 0;

  /** `session`: the page's Session; `audio`: the element that plays replies. */
  constructor(session, audio) {
    super();
    this.#session = session;
    keepOnSpeaker(audio);
    preferences.addEventListener("change", ({ detail: key }) => this.#apply(key));
    session.addEventListener("message", ({ detail: event }) => this.#receive(event));
    session.addEventListener("change", () => this.#phaseChanged());
    for (const key of TOLD) this.#accepted[key] = chosen(key);
    this.#drawCaptions();
  }

  /** Whether the server's `error` event refuses something that was asked for here. */
  owns(event) {
    return event.type === "error" && String(event.error?.event_id).startsWith(ID);
  }

  #apply(key) {
    if (key === "captions") this.#drawCaptions();
    if (MICROPHONE.has(key) && this.#session.hasMicrophone) {
      this.#session.microphone.open().catch((error) => this.#refuse(key, text(`${asProblem(error).code}.text`)));
    }
    if (!TOLD.includes(key)) return;
    if (this.#session.phase === "call") this.#ask(key);
    else if (NO_CALL.has(this.#session.phase)) this.#accepted[key] = chosen(key);
  }

  /** A new call knows all that was chosen; one that is being set up, or was interrupted, is told what changed meanwhile. */
  #phaseChanged() {
    const { phase } = this.#session;
    if (phase === "call") TOLD.forEach((key) => this.#ask(key));
    else this.#asked.length = 0;
    if (NO_CALL.has(phase)) for (const key of TOLD) this.#accepted[key] = chosen(key);
  }

  #ask(key) {
    const before = this.#accepted[key];
    if (chosen(key) === before) return;
    this.#accepted[key] = chosen(key);
    const session = sessionChange(key, this.#session.config);
    const id = `${ID}${key}-${++this.#count}`;
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
    this.#accepted[key] = before;
    if (before === undefined) preferences.unset(key);
    else preferences.set(key, before);
  }

  #refuse(key, message) {
    this.dispatchEvent(new CustomEvent("refused", { detail: { key, message } }));
  }

  #drawCaptions() {
    document.documentElement.dataset.captions = preferences.get("captions");
  }
}

const chosen = (key) => (preferences.isSet(key) ? preferences.get(key) : undefined);
