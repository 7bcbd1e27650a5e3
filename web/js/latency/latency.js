// Latency one can see: below each reply on demand, and over the call.

import { preferences } from "../preferences.js";
import { drawFigures } from "./figures.js";
import { stages } from "./stages.js";
import { TurnView } from "./turn-view.js";

const KEPT_TURNS = 400; // As many as the page keeps of a conversation.

export class Latency {
  #session;
  #figures;
  #turns = new Map(); // Of a reply's id: { turn, network, token, view, total }.
  #token = "";
  #call = { totals: [], interruptions: 0, transport: "", network: null };
  #asked = false;

  /** `figures` is the element for the call's figures. */
  constructor(session, figures) {
    this.#session = session;
    this.#figures = figures;
    session.addEventListener("message", ({ detail }) => this.#receive(detail));
    preferences.addEventListener("change", ({ detail: key }) => key === "waterfall" && this.refresh());
  }

  /** What belongs below a reply of the transcript: an element, or null where nothing is known. */
  part({ id, at, turn }) {
    if (!turn || stages(turn, null) === null) return null;
    const known = this.#known(id);
    known.view = new TurnView({ id, at, turn }, () => this.#facts(id), () => this.#show());
    return known.view.el;
  }

  /** Draw again, after a change of language. */
  refresh() {
    for (const { view } of this.#turns.values()) view?.draw();
    this.#draw();
  }

  #receive(event) {
    if (event.type === "session.created") {
      this.#token = event.session.resume?.token ?? "";
      if (!event.session.resumed) this.#call = { totals: [], interruptions: 0, transport: "", network: null };
    }
    if (event.type === "response.done" && event.response.status === "cancelled") this.#call.interruptions += 1;
    if (event.type === "parley.turn") this.#measured(event);
    else if (event.type === "session.created" || event.type === "response.done") this.#draw();
  }

  async #measured({ response_id: id, timings_ms: timings, spans_ms: spans }) {
    const known = this.#known(id);
    const call = this.#call;
    known.token = this.#token;
    call.transport = this.#session.transport;
    known.network = call.network = await this.#session.measure().catch(() => null); // The call may just have ended.
    const told = stages({ timings, spans }, known.network);
    if (told?.heard && told.spoken) call.totals.push(told.total); // What is typed waits for no end of a turn: another figure.
    known.view?.draw();
    this.#draw();
  }

  #known(id) {
    if (!this.#turns.has(id)) {
      this.#turns.set(id, { network: null, token: "", view: null });
      if (this.#turns.size > KEPT_TURNS) this.#turns.delete(this.#turns.keys().next().value);
    }
    return this.#turns.get(id);
  }

  /** After a refresh the token is that of the session which goes on. */
  #facts(id) {
    const { network, token } = this.#known(id);
    return { network, token: token || this.#session.resumeToken, kept: this.#session.config.saved_turns !== false };
  }

  #show() {
    this.#asked = true;
    this.#draw();
  }

  #draw() {
    drawFigures(this.#figures, this.#call, preferences.get("waterfall") || this.#asked);
  }
}
