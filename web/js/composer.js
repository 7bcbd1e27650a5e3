// The text box, and whether what is typed is answered aloud.

import { setIcon } from "./icons.js";
import { preferences } from "./preferences.js";
import { text } from "./strings.js";

/** `say(words)` is called with what was typed. */
export class Composer {
  #form;
  #message;
  #answers;

  constructor(form, say) {
    this.#form = form;
    this.#message = form.querySelector("input");
    this.#answers = form.querySelector(".answers");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const words = this.#message.value.trim();
      if (!words) return;
      this.#message.value = "";
      say(words);
    });
    this.#answers.addEventListener("click", () => preferences.set("answers", this.#silent ? "voice" : "silent"));
    preferences.addEventListener("change", ({ detail: key }) => key === "answers" && this.draw());
    this.draw();
  }

  get #silent() {
    return preferences.get("answers") === "silent";
  }

  focus() {
    this.#message.focus();
  }

  draw() {
    this.#answers.setAttribute("aria-pressed", String(this.#silent));
    this.#answers.setAttribute("aria-label", text("silentAnswers"));
    this.#answers.title = text(this.#silent ? "answersSilent" : "answersAloud");
    setIcon(this.#answers, this.#silent ? "i-sound-off" : "i-sound");
    this.#form.dataset.answers = this.#silent ? "silent" : "voice";
  }
}
