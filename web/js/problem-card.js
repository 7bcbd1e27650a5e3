// A problem, in words, with the ways on as buttons.

import { setToken } from "./server.js";
import { text } from "./strings.js";

const WAYS = {
  microphone_denied: ["retry", "type"],
  microphone_missing: ["retry", "type"],
  microphone_busy: ["retry", "type"],
  insecure_context: ["type"],
  unsupported: ["dismiss"],
  no_connection: ["retry", "dismiss"],
  connection_lost: ["reconnect", "dismiss"],
  server_unreachable: ["retry", "reload"],
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
  #problem = null;

  constructor(el, actions) {
    this.#el = el;
    this.#actions = actions;
  }

  show(problem) {
    this.#problem = problem;
    const { code } = problem;
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    icon.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(icon.namespaceURI, "use");
    use.setAttribute("href", "#i-warn");
    icon.append(use);
    const words = document.createElement("div");
    const title = document.createElement("h2");
    title.textContent = text(`${code}.title`);
    const body = document.createElement("p");
    body.textContent = text(`${code}.text`);
    words.append(title, body, code === "wrong_token" ? this.#tokenForm() : this.#ways(code));
    this.#el.replaceChildren(icon, words);
    this.#el.dataset.code = code;
    this.#el.hidden = false;
  }

  hide() {
    this.#problem = null;
    this.#el.hidden = true;
    this.#el.replaceChildren();
  }

  /** Draw again, after a change of language. */
  refresh() {
    if (this.#problem) this.show(this.#problem);
  }

  #ways(code) {
    const ways = document.createElement("div");
    ways.className = "ways";
    for (const name of WAYS[code] ?? ["retry", "dismiss"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text(LABELS[name] ?? `action.${name}`);
      button.addEventListener("click", () => {
        this.hide();
        this.#actions[name]();
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
