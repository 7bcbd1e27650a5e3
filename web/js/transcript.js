// Draws the conversation. Everything said goes in as text nodes, never as markup.

import { codePoints } from "./conversation.js";
import { icon } from "./icons.js";
import { itemText } from "./saving.js";
import { seconds, text } from "./strings.js";

// A word or the space between two; scripts without spaces turn solid character by character.
const UNSPACED = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}";
const WORD = new RegExp(`\\s+|[${UNSPACED}]|[^\\s${UNSPACED}]+`, "gu");
const NEAR_END_PX = 80;

const make = (tag, className, content = "") => {
  const el = document.createElement(tag);
  if (className) el.className = className;
  el.textContent = content;
  return el;
};

/** What other parts of the page add below a reply whose timings are known: (item) => Node or null. */
export const footParts = [];

export class Transcript {
  #list;
  #scroller;
  #copy;
  #rows = new Map();

  /** `copy(text, button)` puts text on the clipboard. */
  constructor(list, scroller, copy) {
    this.#list = list;
    this.#scroller = scroller;
    this.#copy = copy;
    // A reply's figures come after it, a problem takes some of the room: who was at the end stays there.
    let [following, last] = [true, 0];
    scroller.addEventListener("scroll", () => {
      // Only who goes up leaves the end: text that came since the page itself scrolled leaves nobody behind.
      following = this.#atEnd() || (following && scroller.scrollTop >= last);
      last = scroller.scrollTop;
    });
    // Nor does what the person opens carry them to the end: they want to see it.
    let opened = false;
    list.addEventListener("click", ({ target }) => (opened ||= target.closest("[aria-expanded]") !== null), true);
    const sizes = new ResizeObserver(() => {
      if (opened) following = this.#atEnd();
      else if (following) this.#toEnd();
      opened = false;
    });
    for (const el of [list, scroller]) sizes.observe(el);
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
    if (follow || item.role === "user") this.#toEnd();
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

  #toEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  #row(item) {
    const el = make("li", `item ${item.role}`);
    const copy = copyButton((button) => this.#copy(itemText(this.#rows.get(item.id).item), button));
    if (item.role === "user") return { el, draw: userRow(el, copy) };
    if (item.role === "parley") return { el, draw: replyRow(el, copy) };
    const line = make("span", "line");
    line.dir = "auto";
    el.append(line);
    return { el, draw: ({ role, text: said }) => void (line.textContent = role === "call" ? text(said) : said) };
  }
}

export function copyButton(copy) {
  const button = make("button", "copy");
  button.type = "button";
  button.title = text("copyOne");
  button.setAttribute("aria-label", text("copyOne"));
  button.append(icon("i-copy"));
  button.addEventListener("click", () => copy(button));
  return button;
}

function userRow(el, copy) {
  const said = make("p", "said");
  const unsent = make("p", "unsent");
  said.dir = "auto";
  el.append(make("span", "hidden", text("you")), said, unsent, copy);
  return ({ text: words, status, language }) => {
    if (language) said.lang = language;
    unsent.textContent = status === "unsent" ? text("unsent") : "";
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

function replyRow(el, copy) {
  const said = make("p", "said");
  said.dir = "auto";
  const row = make("div", "foot");
  const foot = make("div", "facts");
  const more = make("div", "more"); // What other parts of the page know of this reply.
  row.append(foot, more, copy);
  el.append(make("span", "hidden", text("parley")), said, row);
  let drawn = "";
  let words = [];
  let told;
  return (item) => {
    const { text: reply, heard, status, turn } = item;
    const settled = status === "completed" && heard >= codePoints(reply);
    if (settled) {
      // Nothing is left to be marked: a long conversation has no need of its thousands of words one by one.
      if (words.length || reply !== drawn) said.replaceChildren(make("span", "word heard", reply));
      words = [];
    } else {
      const goesOn = words.length > 0 && reply.startsWith(drawn);
      if (!goesOn || reply !== drawn) words = grow(said, goesOn ? words : clear(said), reply);
      mark(words, heard, status);
    }
    drawn = reply;
    drawFoot(foot, item);
    if (turn !== told) more.replaceChildren(...footParts.map((part) => part(item)).filter(Boolean));
    told = turn;
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

function drawFoot(foot, { status, turn, silent }) {
  const parts = [];
  if (silent) parts.push(make("span", "silent", text("silentAnswer")));
  if (status === "cancelled" || status === "failed") {
    parts.push(make("span", "outcome", text(status === "failed" ? "failed" : "interrupted")));
  }
  if (Number.isFinite(turn?.timings.voice_to_voice)) {
    parts.push(make("span", "total", text("answered", { time: seconds(turn.timings.voice_to_voice) })));
  }
  foot.replaceChildren(...parts);
}
