// Every sentence of the page, in both languages, collected from strings/: one file per subject.

import * as call from "./strings/call.js";
import * as check from "./strings/check.js";
import * as latency from "./strings/latency.js";
import * as settings from "./strings/settings.js";

const subjects = [call, check, latency, settings];
const merged = (tag) => Object.assign({}, ...subjects.map((subject) => subject[tag]));
const en = merged("en");
const tables = { en, zh: merged("zh") };
const STORED = "parley.language";

function preferred() {
  let stored = null;
  try {
    stored = localStorage.getItem(STORED);
  } catch {
    // Storage may be forbidden; the browser's language still serves.
  }
  if (stored in tables) return stored;
  return (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2)).find((tag) => tag in tables) ?? "en";
}

let current = preferred();

export const language = () => current;

/** Text of `key`; `values` fill `{name}` places. An unknown key gives an empty string. */
export function text(key, values = {}) {
  const template = tables[current][key] ?? en[key] ?? "";
  return template.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export const has = (key) => key in en;

/** "0.73 s", in the page's language. */
export const seconds = (ms) => text("seconds", { number: (ms / 1000).toFixed(2) });

/** Fill every element that names a string in data-text, data-label, data-title or data-placeholder. */
export function fill(root = document) {
  document.documentElement.lang = current === "zh" ? "zh-CN" : current;
  for (const el of root.querySelectorAll("[data-text]")) el.textContent = text(el.dataset.text);
  for (const el of root.querySelectorAll("[data-label]")) el.setAttribute("aria-label", text(el.dataset.label));
  for (const el of root.querySelectorAll("[data-title]")) el.title = text(el.dataset.title);
  for (const el of root.querySelectorAll("[data-placeholder]")) el.placeholder = text(el.dataset.placeholder);
}

export function choose(tag) {
  if (!(tag in tables)) return;
  current = tag;
  try {
    localStorage.setItem(STORED, tag);
  } catch {
    // Then the choice lasts for this visit.
  }
}
