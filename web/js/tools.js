// What can be done with a conversation: copy it, download it, record it.

import { keepFocus } from "./focus.js";
import { setIcon } from "./icons.js";
import { duration } from "./recording.js";
import { asJson, asText, download, fileName } from "./saving.js";
import { text } from "./strings.js";

const SHOWN_MS = 1600;

const at = (id) => document.getElementById(id);

/** Put `words` on the clipboard and show on `button` whether it went well. */
export async function copy(words, button) {
  const done = await write(words);
  button.dataset.done = done ? "yes" : "no";
  setIcon(button, done ? "i-check" : "i-warn");
  at("announcer").textContent = text(done ? "copied" : "notCopied");
  setTimeout(() => {
    delete button.dataset.done;
    setIcon(button, "i-copy");
  }, SHOWN_MS);
}

async function write(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    return writeOldWay(words); // Over plain http there is no clipboard API.
  }
}

function writeOldWay(words) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = words;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

/** `items()` gives the conversation, `facts()` what else its JSON tells. */
export class Tools {
  #recording;
  #tick = null;

  constructor(items, facts, recording) {
    this.#recording = recording;
    const menu = at("save");
    const close = () => (menu.open = false);
    at("copy-all").addEventListener("click", ({ currentTarget }) => copy(asText(items()), currentTarget));
    at("save-text").addEventListener("click", () => {
      download(asText(items()), fileName("txt"), "text/plain;charset=utf-8");
      close();
    });
    at("save-json").addEventListener("click", () => {
      download(asJson(items(), facts()), fileName("json"), "application/json");
      close();
    });
    document.addEventListener("click", ({ target }) => menu.contains(target) || close());
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.stopPropagation();
      close();
      menu.querySelector("summary").focus();
    });
    at("record").addEventListener("click", () => recording.toggle());
    at("recording").addEventListener("click", () => recording.stop());
    at("kept-save").addEventListener("click", () => {
      download(recording.kept.blob, recording.kept.name);
      recording.downloaded();
    });
    at("kept-discard").addEventListener("click", () => recording.discard());
    addEventListener("beforeunload", (event) => {
      if (recording.on || recording.kept?.downloaded === false) event.preventDefault(); // It would be lost with the page.
    });
    recording.addEventListener("change", () => this.draw());
    this.draw();
  }

  draw() {
    keepFocus(() => this.#draw(), at("talk"));
  }

  #draw() {
    const { on, available, kept } = this.#recording;
    at("record").hidden = !on && !available;
    at("record").toggleAttribute("data-on", on);
    const label = text(on ? "recordStop" : "record");
    at("record").title = label;
    at("record").setAttribute("aria-label", label);
    at("recording").hidden = !on;
    this.#drawTime();
    if (on && this.#tick === null) this.#tick = setInterval(() => this.#drawTime(), 500);
    if (!on && this.#tick !== null) {
      clearInterval(this.#tick);
      this.#tick = null;
    }
    at("kept").hidden = kept === null;
    if (!kept) return;
    const { downloaded, name, seconds } = kept;
    at("kept-label").textContent = text(downloaded ? "keptDownloaded" : "kept", { name, time: duration(seconds) });
    at("kept-save").textContent = text(downloaded ? "downloadAgain" : "download");
    at("kept-discard").textContent = text(downloaded ? "close" : "discard");
  }

  #drawTime() {
    at("recording-time").textContent = duration(this.#recording.seconds);
  }
}
