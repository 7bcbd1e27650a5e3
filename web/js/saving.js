// The conversation as something to keep: plain text, JSON, and files to download.

import { language, text } from "./strings.js";

const SPOKEN = new Set(["user", "parley", "notice"]);

/** A reply's text in two: what was heard (or read), and the rest. */
export function halves({ text: reply, heard, status }) {
  if (status === "completed") return [reply, ""];
  const letters = Array.from(reply);
  return [letters.slice(0, heard).join(""), letters.slice(heard).join("")];
}

/** One item as one paragraph; what was not heard is in brackets. */
export function itemText(item) {
  if (item.status === "unsent") return `${item.text} [${text("unsent")}]`;
  if (item.role !== "parley" || item.status === "speaking") return item.text; // What is to come is not lost.
  const [heard, unheard] = halves(item);
  return unheard.trim() ? `${heard.trimEnd()} [${text("unheard")} ${unheard.trim()}]`.trim() : heard;
}

const clock = (ms) => new Date(ms).toLocaleTimeString(language() === "zh" ? "zh-CN" : "en-GB");
const day = (ms) => new Date(ms).toLocaleDateString(language() === "zh" ? "zh-CN" : "en-GB", { dateStyle: "long" });

const saidItems = (items) => [...items].filter((item) => SPOKEN.has(item.role) && item.text);

export function asText(items) {
  const said = saidItems(items);
  const name = { user: text("you"), parley: text("parley"), notice: text("notice") };
  const lines = said.map((item) => `[${clock(item.at)}] ${name[item.role]}: ${itemText(item)}`);
  return `Parley, ${day(said[0]?.at ?? Date.now())}\n\n${lines.join("\n")}\n`;
}

export function asJson(items, { model = "" } = {}) {
  const described = saidItems(items).map((item) => {
    const base = { id: item.id, role: item.role === "parley" ? "assistant" : item.role, at: new Date(item.at).toISOString() };
    if (item.role !== "parley") {
      const delivered = item.status === "unsent" ? { delivered: false } : {};
      return { ...base, text: item.text, ...delivered, ...(item.language && { language: item.language }) };
    }
    const [heard, unheard] = halves(item);
    return {
      ...base,
      text: item.text,
      ...(item.silent ? { silent: true } : { heard, unheard }),
      status: item.status,
      ...(item.turn && { timings_ms: item.turn.timings, spans_ms: item.turn.spans, usage: item.turn.usage }),
    };
  });
  return `${JSON.stringify({ made_by: "Parley", saved_at: new Date().toISOString(), model, items: described }, null, 2)}\n`;
}

/** Give `content` (text or a Blob) to the person as a file. */
export function download(content, name, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // Some browsers ask first where to put it.
}

/** parley-2026-11-30-142009.txt */
export function fileName(extension, at = new Date(), what = "parley") {
  const two = (number) => String(number).padStart(2, "0");
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join("");
  return `${[what, at.getFullYear(), two(at.getMonth() + 1), two(at.getDate()), time].join("-")}.${extension}`;
}
