// Draws the conversation. Everything said goes in as text nodes, never as markup.

import { codePoints } from "./conversation.js";
import { text } from "./strings.js";

// A word or the space between two; scripts without spaces turn solid character by character.
const UNSPACED = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}";
const WORD = new RegExp(`\\s+|[${UNSPACED}]|[^\\s${UNSPACED}]+`, "gu");
const STEPS = ["endpoint", "asr", "llm_first_token", "first_clause", "tts_first_audio"];
const NEAR_END_PX = 80;

const make = (tag, className, content = "") => {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.textContent = content;
  return el;
};

export class Transcript {
  #list;
  #scroller;
  #rows = new Map();

  constructor(list, scroller) {
    this.#list = list;
    this.#scroller = scroller;
  }

  show(item) {
    const follow = this.#atEnd();
    let row = this.#rows.get(item.id);
    if (!row) {
      row = this.#row(item);
      this.#rows.set(item.id, row);
      this.#list.append(row.el);
    }
    row.item = item;
    row.draw(item);
    row.el.dataset.status = item.status;
    if (follow || item.role === "user") this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  remove(item) {
    this.#rows.get(item.id)?.el.remove();
    this.#rows.delete(item.id);
  }

  /** Draw all again, after a change of language. */
  refresh() {
    for (const [id, { el, item }] of this.#rows) {
      const row = this.#row(item);
      row.item = item;
      row.draw(item);
      row.el.dataset.status = item.status;
      el.replaceWith(row.el);
      this.#rows.set(id, row);
    }
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  #row(item) {
    const el = make("li", `item ${item.role}`);
    if (item.role === "user") return { el, draw: userRow(el) };
    if (item.role === "parley") return { el, draw: replyRow(el) };
    const line = make("span", "line");
    el.append(line);
    return { el, draw: ({ role, text: said }) => void (line.textContent = role === "call" ? text("newCall") : said) };
  }
}

function userRow(el) {
  const said = make("p", "said");
  el.append(make("span", "hidden", text("you")), said);
  return ({ text: words, status }) => {
    if (status === "hearing") {
      const dots = make("span", "dots");
      dots.setAttribute("role", "img");
      dots.setAttribute("aria-label", text("listeningDots"));
      dots.append(make("i"), make("i"), make("i"));
      said.replaceChildren(words ? `${words} ` : "", dots);
    } else {
      said.textContent = status === "missed" ? text("notUnderstood") : words;
    }
  };
}

function replyRow(el) {
  const said = make("p", "said");
  const foot = make("p", "foot");
  el.append(make("span", "hidden", text("parley")), said, foot);
  let drawn = "";
  let words = [];
  return ({ text: reply, heard, status, turn }) => {
    if (reply !== drawn) {
      words = reply.startsWith(drawn) ? grow(said, words, reply) : grow(said, clear(said), reply);
      drawn = reply;
    }
    mark(words, heard, status);
    drawFoot(foot, status, turn);
  };
}

function clear(said) {
  said.replaceChildren();
  return [];
}

/** Append what is new; the last word is drawn again, for the new text may continue it. */
function grow(said, words, reply) {
  const last = words.pop();
  last?.el.remove();
  let offset = last?.offset ?? 0;
  let end = words.at(-1)?.end ?? 0;
  for (const [word] of reply.slice(offset).matchAll(WORD)) {
    const el = make("span", "word", word);
    end += codePoints(word);
    words.push({ el, offset, end, space: word.trim() === "" });
    offset += word.length;
    said.append(el);
  }
  return words;
}

function mark(words, heard, status) {
  const over = status === "cancelled" || status === "failed";
  let noted = false; // The note before the first unheard word is for screen readers.
  for (const { el, end, space } of words) {
    const isHeard = end <= heard;
    const struck = !isHeard && over && (noted || !space);
    el.classList.toggle("heard", isHeard);
    el.classList.toggle("unheard", struck);
    if (struck && !noted) el.dataset.note = text("unheard");
    else delete el.dataset.note;
    noted ||= struck;
  }
}

const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;

function drawFoot(foot, status, turn) {
  const parts = [];
  if (status === "cancelled" || status === "failed") {
    parts.push(make("span", "outcome", text(status === "failed" ? "failed" : "interrupted")));
  }
  if (Number.isFinite(turn?.timings.voice_to_voice)) {
    parts.push(make("span", "total", text("answered", { time: seconds(turn.timings.voice_to_voice) })));
  }
  const steps = STEPS.filter((step) => Number.isFinite(turn?.timings[step]));
  steps.forEach((step, i) => {
    const el = make("span", "step", `${text(`timing.${step}`)} `);
    el.append(make("b", "", `${Math.round(turn.timings[step])}`), i === steps.length - 1 ? " ms" : "");
    parts.push(el);
  });
  foot.replaceChildren(...parts);
}
