// The fields of the settings: each shows one preference, changes it, and says why the server refused it.

import { preferences } from "../preferences.js";

let count = 0;
const newId = (stem) => `settings-${stem}-${++count}`;

export function make(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

/** An element whose words follow the language of the page. */
export const words = (tag, key, attributes = {}) => make(tag, { "data-text": key, ...attributes });

export function button(key, pressed, attributes = {}) {
  const el = words("button", key, { type: "button", ...attributes });
  el.addEventListener("click", pressed);
  return el;
}

/** One of the settings. `el` is what to show, `control` what a person operates. */
class Field {
  constructor(key, el, control) {
    this.key = key;
    this.el = el;
    this.control = control;
    this.error = make("p", { class: "refusal", role: "alert", id: newId("error"), hidden: "" });
    el.append(this.error);
    const described = control.getAttribute("aria-describedby");
    control.setAttribute("aria-describedby", described ? `${described} ${this.error.id}` : this.error.id);
  }

  /** Say in words why it was not taken; empty: it was. */
  refuse(message) {
    this.error.textContent = message;
    this.error.hidden = !message;
    if (message) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
  }

  choose(value) {
    this.refuse("");
    preferences.set(this.key, value);
  }
}

function labelled(labelKey, control, helpKey) {
  control.id ||= newId("control");
  const el = make("div", { class: "field" }, words("label", labelKey, { for: control.id }));
  if (helpKey) {
    const help = words("p", helpKey, { class: "help", id: newId("help") });
    control.setAttribute("aria-describedby", help.id);
    el.append(control, help);
  } else {
    el.append(control);
  }
  return el;
}

/** A list to choose from; `list()` gives [value, name] pairs, in the page's language, whenever it is shown. */
export class SelectField extends Field {
  #list;

  constructor(key, labelKey, list, helpKey) {
    const control = make("select");
    super(key, labelled(labelKey, control, helpKey), control);
    this.#list = list;
    control.addEventListener("change", () => this.choose(control.value));
  }

  show() {
    const options = this.#list().map(([value, name]) => {
      const option = make("option", { value });
      option.textContent = name;
      return option;
    });
    this.control.replaceChildren(...options);
    const chosen = preferences.get(this.key);
    this.control.value = options.some(({ value }) => value === chosen) ? chosen : "";
  }
}

export class SwitchField extends Field {
  constructor(key, labelKey, helpKey) {
    const control = make("input", { type: "checkbox", role: "switch", id: newId("control") });
    const label = words("label", labelKey, { for: control.id });
    const el = make("div", { class: "field switch" }, label, control);
    if (helpKey) {
      const help = words("p", helpKey, { class: "help", id: newId("help") });
      control.setAttribute("aria-describedby", help.id);
      el.append(help);
    }
    super(key, el, control);
    control.addEventListener("change", () => this.choose(control.checked));
  }

  show() {
    this.control.checked = preferences.get(this.key);
  }
}

/** A few choices, named `<label>.<value>`: side by side or, with a sentence each (`.help`), one below the other. */
export class ChoiceField extends Field {
  #inputs;

  constructor(key, labelKey, choices, { explained = false } = {}) {
    const group = newId(key);
    const el = make("fieldset", { class: `field choices ${explained ? "explained" : "row"}` }, words("legend", labelKey));
    const inputs = choices.map((value) => {
      const label = `${labelKey}.${value}`;
      const name = words("span", label, { class: "name", id: newId("name") });
      const input = make("input", { type: "radio", name: group, value, "aria-labelledby": name.id });
      const choice = make("label", { class: "choice", "data-value": value }, input, name);
      if (explained) {
        const help = words("span", `${label}.help`, { class: "help", id: newId("help") });
        input.setAttribute("aria-describedby", help.id);
        choice.append(help);
      }
      el.append(choice);
      input.addEventListener("change", () => this.choose(value));
      return input;
    });
    super(key, el, el);
    this.#inputs = inputs;
  }

  show() {
    for (const input of this.#inputs) input.checked = input.value === preferences.get(this.key);
  }
}

/** A slider whose number is read out as `readout(value)` while it moves, and taken when it is let go. */
export class SliderField extends Field {
  #readout;

  constructor(key, labelKey, { min, max, step, readout }) {
    const control = make("input", { type: "range", min, max, step });
    const el = labelled(labelKey, control);
    const output = make("output", { for: control.id });
    el.querySelector("label").after(output);
    el.classList.add("slider");
    super(key, el, control);
    this.#readout = () => {
      output.textContent = readout(Number(control.value));
      control.setAttribute("aria-valuetext", output.textContent);
    };
    control.addEventListener("input", this.#readout);
    control.addEventListener("change", () => this.choose(Number(control.value)));
  }

  range(min, max) {
    Object.assign(this.control, { min, max });
  }

  show() {
    this.control.value = preferences.get(this.key);
    this.#readout();
  }
}

/** A longer text, taken when the person leaves it. */
export class TextField extends Field {
  constructor(key, labelKey, helpKey, { maxlength }) {
    const control = make("textarea", { rows: 4, maxlength, spellcheck: "true" });
    super(key, labelled(labelKey, control, helpKey), control);
    control.addEventListener("change", () => this.take());
  }

  take() {
    const value = this.control.value.trim();
    if (value !== preferences.get(this.key)) this.choose(value);
  }

  show() {
    if (this.control !== document.activeElement) this.control.value = preferences.get(this.key);
  }
}
