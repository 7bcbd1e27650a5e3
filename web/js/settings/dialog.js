// The settings: a dialog over the page, in which everything takes effect at once.

import { preferences } from "../preferences.js";
import { asProblem } from "../problem.js";
import { configuration } from "../server.js";
import { fill, language, text } from "../strings.js";
import { button, ChoiceField, make, SelectField, SliderField, SwitchField, TextField, words } from "./fields.js";
import { SoundSection } from "./sound.js";

const MAX_INSTRUCTIONS_CHARS = 8000; // As the server takes them.
const SPEED_STEP = 0.05;

/** What the person reads for a language code, in the page's language. */
function languageName(tag) {
  if (tag === "auto") return text("settings.auto");
  try {
    return new Intl.DisplayNames([language()], { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

export class SettingsDialog {
  #dialog;
  #session;
  #sound;
  #config = {};
  #onLanguage;
  #undo = null;

  /** `dialog`: an empty <dialog>; `live`: LiveSettings; `onLanguage(tag)` changes the page's language. */
  constructor(dialog, { session, live, onLanguage }) {
    this.#dialog = dialog;
    this.#session = session;
    this.#onLanguage = onLanguage;
    this.#sound = new SoundSection(session.microphone);
    this.#build();
    preferences.addEventListener("change", () => {
      this.#undo = null;
      if (dialog.open) this.#show();
    });
    live.addEventListener("refused", ({ detail: { key, message } }) => {
      this.fields.find((field) => field.key === key)?.refuse(text("settings.refused", { message }));
    });
    dialog.addEventListener("close", () => this.#close());
    // A press beside the dialog closes it; its own padding is none of its children's.
    dialog.addEventListener("pointerdown", ({ target }) => target === dialog && dialog.close());
  }

  async open() {
    if (this.#dialog.open) return;
    this.refresh();
    this.#dialog.showModal();
    this.#sound.open();
    await this.#ask();
  }

  #close() {
    this.#undo = null;
    this.#sound.close();
    this.fields.forEach((field) => field.refuse(""));
    this.instructions.take(); // Escape leaves a field without its "change".
  }

  /** Draw again, after a change of language or of what the server offers. */
  refresh() {
    this.#show();
    fill(this.#dialog);
    this.instructions.control.placeholder = this.#config.instructions ?? "";
  }

  #build() {
    this.voice = new SelectField("voice", "settings.voice", () => this.#voices());
    const readout = (speed) => `${speed.toFixed(2)}×`;
    this.speed = new SliderField("speed", "settings.speed", { min: 0.5, max: 2, step: SPEED_STEP, readout });
    const languages = () => this.#languages();
    this.spoken = new SelectField("spokenLanguage", "settings.spokenLanguage", languages, "settings.spokenLanguage.help");
    this.mode = new ChoiceField("mode", "settings.mode", ["open", "push", "hold"], { explained: true });
    this.answers = new ChoiceField("answers", "settings.answers", ["voice", "silent"]);
    const maxlength = MAX_INSTRUCTIONS_CHARS;
    this.instructions = new TextField("instructions", "settings.instructions", "settings.instructions.help", { maxlength });
    this.captions = new ChoiceField("captions", "settings.captions", ["small", "medium", "large", "largest"]);
    this.waterfall = new SwitchField("waterfall", "settings.waterfall", "settings.waterfall.help");
    this.record = new SwitchField("record", "settings.record", "settings.record.help");
    this.fields = [
      ...this.#sound.fields,
      ...[this.voice, this.speed, this.spoken, this.mode, this.answers],
      ...[this.instructions, this.captions, this.waterfall, this.record],
    ];
    this.captions.el.classList.add("sizes");

    this.trouble = make("div", { class: "permission", hidden: "" }, make("p"), button("action.retry", () => this.#ask()));
    this.note = make("p", { class: "help", role: "status" });
    this.undoButton = button("settings.undo", () => this.#takeBack());
    // With its opener the other tab has the token, and a running call goes on in this one.
    const check = words("a", "settings.check", { href: "check.html", target: "_blank", rel: "opener" });
    const title = words("h2", "settings.title", { id: "settings-title", tabindex: -1, autofocus: "" });
    const done = button("settings.done", () => this.#dialog.close(), { class: "done" });
    const section = (key, ...parts) => make("section", {}, words("h3", key), ...parts);
    this.speech = section("settings.speech", this.trouble, this.voice.el, this.speed.el, this.spoken.el);
    this.#dialog.setAttribute("aria-labelledby", "settings-title");
    this.#dialog.append(
      make(
        "div",
        { class: "sheet" },
        make("header", {}, title, done),
        make(
          "div",
          { class: "sections" },
          make("div", {}, this.#sound.el, this.speech),
          make(
            "div",
            {},
            section("settings.talking", this.mode.el, this.answers.el, this.instructions.el),
            section("settings.page", this.captions.el, this.waterfall.el, this.record.el, this.#pageLanguage()),
          ),
        ),
        make("footer", {}, check, this.note, this.undoButton, button("settings.reset", () => this.#reset())),
      ),
    );
  }

  #pageLanguage() {
    this.pageLanguage = make("select", { id: "settings-page-language" });
    this.pageLanguage.append(make("option", { value: "en", lang: "en" }, "English"), make("option", { value: "zh", lang: "zh-CN" }, "中文"));
    this.pageLanguage.addEventListener("change", () => this.#onLanguage(this.pageLanguage.value));
    return make("div", { class: "field" }, words("label", "settings.pageLanguage", { for: "settings-page-language" }), this.pageLanguage);
  }

  #show() {
    const { voices = [], languages = [], speeds, client_instructions: instructions, recording } = this.#config;
    if (speeds) this.speed.range(...speeds);
    this.fields.forEach((field) => field.show());
    this.voice.el.hidden = voices.length < 2;
    this.speed.el.hidden = speeds !== undefined && speeds[0] === speeds[1];
    this.spoken.el.hidden = languages.length < 2;
    // One field alone is no section: it follows those above.
    const shown = [this.voice, this.speed, this.spoken].filter(({ el }) => !el.hidden);
    this.speech.querySelector("h3").hidden = shown.length < 2;
    this.instructions.el.hidden = !instructions;
    this.record.el.hidden = !recording;
    this.pageLanguage.value = language();
    this.undoButton.hidden = this.#undo === null;
    const note = this.#undo ? "settings.wasReset" : preferences.kept ? "" : "settings.notKept";
    if (this.note.textContent !== text(note)) this.note.textContent = text(note);
  }

  /** What the server offers and allows; without an answer the rest can be set all the same. */
  async #ask() {
    try {
      this.#config = await configuration();
      this.trouble.hidden = true;
    } catch (error) {
      const words = this.trouble.querySelector("p");
      words.dataset.text = asProblem(error).code === "wrong_token" ? "settings.noToken" : "settings.noServer";
      words.textContent = text(words.dataset.text);
      this.trouble.hidden = false;
    }
    this.refresh();
  }

  #voices() {
    const { voices = [], default_voice: own } = this.#config;
    return [["", own ? text("settings.serversOwn", { name: own }) : text("settings.serversChoice")], ...voices.map((voice) => [voice, voice])];
  }

  #languages() {
    const { languages = [], language: own } = this.#config;
    const named = languages.map((tag) => [tag, languageName(tag)]);
    named.sort(([one, oneName], [other, otherName]) => (other === "auto") - (one === "auto") || oneName.localeCompare(otherName, language()));
    return [["", text("settings.serversOwn", { name: languageName(own ?? "en") })], ...named];
  }

  #reset() {
    const before = preferences.reset();
    this.#undo = Object.keys(before).length ? before : null;
    this.fields.forEach((field) => field.refuse(""));
    this.#show();
    this.note.textContent = text("settings.wasReset");
  }

  #takeBack() {
    for (const [key, value] of Object.entries(this.#undo ?? {})) preferences.set(key, value);
    this.#dialog.querySelector("footer button:last-child").focus();
  }
}
