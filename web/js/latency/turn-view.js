// What is below a reply: a button that shows where its time went, and the way to keep the turn as a file.

import { preferences } from "../preferences.js";
import { asProblem } from "../problem.js";
import { download, fileName } from "../saving.js";
import { savedTurn } from "../server.js";
import { has, text } from "../strings.js";
import { copy } from "../tools.js";
import { copyButton } from "../transcript.js";
import { stages } from "./stages.js";
import { waterfall } from "./waterfall.js";

const make = (tag, className, content = "") => {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.textContent = content;
  return el;
};

export class TurnView {
  el = make("div", "latency");
  #id;
  #at;
  #turn;
  #facts;
  #button = make("button", "show");
  #panel = make("div", "panel");
  #open = false;

  /** `at` is when the reply came up, in ms since the epoch. `facts()` is what the call knows of this turn: { network, token, kept }; `opened()` is told when it is shown. */
  constructor({ id, at, turn }, facts, opened) {
    this.#id = id;
    this.#at = at;
    this.#turn = turn;
    this.#facts = facts;
    this.#panel.id = `latency-${id}`;
    this.#button.type = "button";
    this.#button.setAttribute("aria-controls", this.#panel.id);
    this.#button.addEventListener("click", () => {
      this.#open = !this.#open;
      if (this.#open) opened();
      this.draw();
      if (!this.#open) return;
      // As much of the panel as there is room for, but never so much that what was pressed is gone.
      for (const el of [this.#panel, this.#button]) el.scrollIntoView({ block: "nearest" });
    });
    this.el.append(this.#button, this.#panel);
    this.draw();
  }

  draw() {
    const always = preferences.get("waterfall");
    const shown = always || this.#open;
    this.#button.hidden = always;
    this.#button.textContent = text("latency.show");
    this.#button.setAttribute("aria-expanded", String(shown));
    this.#panel.hidden = !shown;
    if (shown) this.#fill();
  }

  #fill() {
    const { network } = this.#facts();
    const told = stages(this.#turn, network);
    const parts = told ? [waterfall(told)] : [];
    const { early = {}, usage } = this.#turn;
    const notes = [];
    if (early.ms > 0) notes.push(text("latency.early", { ms: Math.round(early.ms) }));
    if (usage?.prompt_tokens) {
      notes.push(text("latency.tokens", { all: usage.prompt_tokens, cached: usage.cached_tokens ?? 0, written: usage.completion_tokens ?? 0 }));
    }
    if (notes.length) parts.push(make("p", "notes", notes.join(" ")));
    parts.push(this.#saving());
    this.#panel.replaceChildren(...parts);
  }

  #saving() {
    const row = make("div", "saving");
    const button = make("button", "save-turn", text("latency.save"));
    const said = make("p");
    said.setAttribute("role", "status");
    button.type = "button";
    button.title = text("latency.saveTitle");
    button.addEventListener("click", async () => {
      if (button.hasAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true"); // Disabled, it would lose the focus.
      said.textContent = text("latency.saving");
      const code = await this.#save();
      said.textContent = text(has(`latency.${code}`) ? `latency.${code}` : `${code}.text`);
      if (code === "saved") said.append(" ", ...this.#replaying());
      button.removeAttribute("aria-disabled");
    });
    row.append(button, said);
    return row;
  }

  get #file() {
    return fileName("zip", new Date(this.#at), "parley-turn");
  }

  #replaying() {
    const command = `python -m app replay ${this.#file}`;
    return [make("code", "", command), copyButton((button) => copy(command, button))];
  }

  /** What came of it, as the key of a sentence. */
  async #save() {
    const { token, kept } = this.#facts();
    if (!kept) return "none_kept";
    if (!token) return "turn_forgotten";
    try {
      const zip = await savedTurn(this.#id, token);
      download(zip, this.#file);
      return "saved";
    } catch (error) {
      return asProblem(error).code;
    }
  }
}
