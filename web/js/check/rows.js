// The rows of the self-test: one a check, with its state, what came of it, the way on, and details for those who ask.

import { has, text } from "../strings.js";

const SIGNS = { waiting: "·", running: "", ok: "✓", note: "!", fail: "✕", skip: "–" };

const make = (tag, className, content = "") => {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.textContent = content;
  return el;
};

export class Rows {
  #rows = new Map();
  #headings = [];
  #actions;
  #asked = 0; // A question that is asked again has buttons of its own.

  constructor(el, groups, actions) {
    this.#actions = actions;
    for (const group of groups) {
      const section = make("section", "group");
      const heading = make("h2");
      const list = make("ul");
      for (const { id } of group.checks) {
        const row = make("li", "row");
        row.dataset.check = id;
        this.#rows.set(id, { el: row, state: "waiting", result: null, prompt: null });
        list.append(row);
      }
      this.#headings.push([heading, group.id]);
      section.append(heading, list);
      el.append(section);
    }
  }

  wait(id) {
    this.#rows.get(id).prompt?.give(null);
    this.#set(id, { state: "waiting", result: null, prompt: null });
  }

  begin(id) {
    this.#set(id, { state: "running", result: null, prompt: null });
  }

  show(id, result) {
    this.#set(id, { state: result.status, result, prompt: null });
  }

  /** What a running check may ask of the person. */
  prompt(id) {
    const begin = (prompt) => this.#set(id, { prompt: { ...prompt, number: (this.#asked += 1) } });
    return {
      say: (key) => begin({ key, give: () => {} }),
      meter: (key) => {
        const meter = make("meter");
        begin({ key, meter, give: () => {} });
        return (value) => (meter.value = value);
      },
      ask: (key, answers) =>
        new Promise((give) => {
          begin({ key, answers, give });
          this.#actions.asked();
        }),
    };
  }

  /** Whether a question waits for the person's answer. */
  get asking() {
    return this.#question !== undefined;
  }

  goToQuestion() {
    this.#question?.el.scrollIntoView({ block: "center" });
    this.#question?.el.querySelector(".answers button").focus({ preventScroll: true });
  }

  get #question() {
    return [...this.#rows.values()].find(({ prompt }) => prompt?.answers);
  }

  /** Draw all again, after a change of language. */
  refresh() {
    for (const [heading, id] of this.#headings) heading.textContent = text(`group.${id}`);
    for (const id of this.#rows.keys()) this.#draw(id);
  }

  #set(id, changes) {
    Object.assign(this.#rows.get(id), changes);
    this.refresh();
  }

  #draw(id) {
    const { el, state, result, prompt } = this.#rows.get(id);
    const drawn = JSON.stringify([state, result, prompt?.number, text(`check.${id}`)]);
    if (el.dataset.drawn === drawn) return; // Redrawn rows would lose the focus and close their details.
    el.dataset.drawn = drawn;
    el.dataset.state = state;
    const sign = make("span", "sign", SIGNS[state]);
    sign.setAttribute("aria-hidden", "true");
    const words = make("div", "words");
    const name = make("h3", "", text(`check.${id}`));
    name.append(make("span", "hidden", `: ${text(`status.${state}`)}`));
    words.append(name);
    if (prompt) words.append(...asked(prompt));
    if (result) words.append(...told(id, result));
    if (result?.code === "wrong_token") words.append(this.#tokenForm());
    el.replaceChildren(sign, words);
    // What is asked of the person must not wait below the edge of a phone, nor far from the keyboard's focus.
    if (prompt) el.scrollIntoView({ block: "center" });
    words.querySelector(".answers button")?.focus({ preventScroll: true });
  }

  #tokenForm() {
    const form = make("form", "token");
    const input = document.createElement("input");
    Object.assign(input, { type: "password", autocomplete: "off", required: true, placeholder: text("token") });
    input.setAttribute("aria-label", text("token"));
    form.append(input, make("button", "", text("action.useToken")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#actions.useToken(input.value);
    });
    return form;
  }
}

function asked({ key, meter, answers, give }) {
  const said = make("p", "ask", text(key));
  if (meter) meter.setAttribute("aria-label", text("check.level"));
  if (!answers) return meter ? [said, meter] : [said];
  const ways = make("div", "answers");
  for (const answer of answers) {
    const button = make("button", "", text(`answer.${answer}`));
    button.type = "button";
    button.addEventListener("click", () => give(answer));
    ways.append(button);
  }
  return [said, ways];
}

const fix = (key, values) => (has(`${key}.fix`) ? text(`${key}.fix`, values) : "");

function told(id, { code, values = {}, details, lines }) {
  const key = `check.${id}.${code}`;
  const parts = [make("p", "result", text(has(key) ? key : "check.broken", values))];
  const remedy = fix(key, values);
  if (remedy) parts.push(make("p", "fix", remedy));
  if (lines) parts.push(listed(id, lines));
  if (details && Object.keys(details).length) parts.push(detailed(details));
  return parts;
}

function listed(id, lines) {
  const list = make("ul", "lines");
  for (const { status, code, values } of lines) {
    const key = `check.${id}.${code}`;
    const line = make("li", "", text(key, values));
    line.dataset.state = status;
    if (fix(key, values)) line.append(make("span", "fix", ` ${fix(key, values)}`));
    list.append(line);
  }
  return list;
}

function detailed(details) {
  const box = make("details");
  const list = make("dl");
  for (const [name, value] of Object.entries(details)) list.append(make("dt", "", name), make("dd", "", String(value)));
  box.append(make("summary", "", text("check.details")), list);
  return box;
}
