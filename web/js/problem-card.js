// A problem, in words, with the ways on as buttons.

import { keepFocus } from "./focus.js";
import { icon } from "./icons.js";
import { setToken } from "./server.js";
import { text } from "./strings.js";

const WAYS = {
  microphone_denied: ["retry", "type", "check"],
  microphone_missing: ["retry", "type", "check"],
  microphone_busy: ["retry", "type", "check"],
  insecure_context: ["type", "check"],
  unsupported: ["check", "dismiss"],
  no_connection: ["retry", "check", "dismiss"],
  connection_lost: ["reconnect", "check", "dismiss"],
  server_unreachable: ["retry", "reload"],
  session_limit: ["retry", "wait", "dismiss"],
  too_busy: ["retry", "wait", "dismiss"],
  server_stopping: ["reconnect", "dismiss"],
  invalid_request: ["settings", "retry"],
  recording_refused: ["dismiss"],
  recording_failed: ["dismiss"],
  server_closed: ["reconnect", "dismiss"],
  idle: ["reconnect", "dismiss"],
  microphone_lost: ["microphone", "dismiss"],
  microphone_replaced: ["settings", "dismiss"],
  session_trouble: ["dismiss"],
};

const LABELS = { microphone: "action.retry" };

/** Shows one problem at a time; `actions` maps the names above to functions run by its buttons. */
export class ProblemCard {
  #el;
  #actions;
  #next;
  #problem = null;

  /** `next` has the keyboard's focus once the card is gone. */
  constructor(el, actions, next) {
    this.#el = el;
    this.#actions = actions;
    this.#next = next;
  }

  /** What is shown now; "" if nothing is. */
  get code() {
    return this.#problem?.code ?? "";
  }

  show(problem) {
    this.#problem = problem;
    const { code } = problem;
    const words = document.createElement("div");
    const title = document.createElement("h2");
    title.textContent = text(`${code}.title`);
    const body = document.createElement("p");
    body.textContent = text(`${code}.text`);
    words.append(title, body, code === "wrong_token" ? this.#tokenForm() : this.#ways(problem));
    keepFocus(() => this.#el.replaceChildren(icon("i-warn"), words), this.#next);
    this.#el.dataset.code = code;
    this.#el.hidden = false;
    this.#el.scrollIntoView({ block: "nearest" });
  }

  hide() {
    this.#problem = null;
    keepFocus(() => {
      this.#el.hidden = true;
      this.#el.replaceChildren();
    }, this.#next);
  }

  /** Draw again, after a change of language. */
  refresh() {
    if (this.#problem) this.show(this.#problem);
  }

  #ways(problem) {
    const ways = document.createElement("div");
    ways.className = "ways";
    for (const name of WAYS[problem.code] ?? ["retry", "dismiss"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text(LABELS[name] ?? `action.${name}`);
      button.addEventListener("click", () => {
        this.hide();
        this.#actions[name](problem);
      });
      ways.append(button);
    }
    return ways;
  }

  #tokenForm() {
    const form = document.createElement("form");
    form.className = "ways";
    const input = document.createElement("input");
    input.type = "password";
    input.autocomplete = "off";
    input.required = true;
    input.placeholder = text("token");
    input.setAttribute("aria-label", text("token"));
    const button = document.createElement("button");
    button.textContent = text("action.useToken");
    form.append(input, button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      setToken(input.value);
      this.hide();
      this.#actions.retry();
    });
    return form;
  }
}
