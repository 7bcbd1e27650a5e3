// What was said, derived from the server's events (docs/events.md). No DOM here.
//
// An item: { id, role: "user" | "parley" | "notice" | "call", text, status, at, heard, silent, language, turn }.
// `at` is when it came up, in ms since the epoch. `heard` counts code points, as the server does; a silent reply is
// read and not heard. Status of a user item: "hearing", "pending", "unsent", "done", "missed"; of a reply: "speaking",
// "completed", "cancelled", "failed". The text of a "call" item is the key of its sentence.

const MISSED_MS = 4000; // Speech that became no turn (a cough, a "mm-hm") leaves no empty bubble behind.
const KEPT_ITEMS = 400; // Over a refresh.

const NOTHING_SAID = new Set(["no_words", "echo"]);

export const codePoints = (text) => Array.from(text).length;

const same = (one, other) => one.replace(/\s+/g, " ").trim() === other.replace(/\s+/g, " ").trim();

/** `rest` begins where its clause began, which may have been heard in part. */
function join(heard, rest) {
  for (let common = Math.min(heard.length, rest.length); common > 0; common--) {
    if (heard.endsWith(rest.slice(0, common))) return heard + rest.slice(common);
  }
  return rest ? `${heard} ${rest}` : heard;
}

export class Conversation {
  items = new Map();
  #changed;
  #removed;
  #local = 0;
  #aliases = new Map(); // The server's ids of what was typed here.

  constructor({ changed, removed }) {
    this.#changed = changed;
    this.#removed = removed;
  }

  /** A line between two calls, if anything was said before. */
  begin(key = "newCall") {
    const last = [...this.items.values()].at(-1);
    if (last && last.role !== "call") this.#put({ id: this.#newId(), role: "call", text: key, status: "done" });
  }

  /** Show typed text at once; the server confirms it. */
  typed(text) {
    this.#put({ id: this.#newId(), role: "user", text, status: "pending" });
  }

  /** What was typed and never confirmed, as after a lost connection. */
  unsent() {
    return [...this.items.values()].filter(({ status }) => status === "pending").map((item) => item.text);
  }

  /** What was typed and never confirmed belongs to no other call. */
  drop() {
    for (const item of [...this.items.values()]) if (item.status === "pending") this.#update(item, { status: "unsent" });
  }

  /** Nothing more will be heard or recognised of what is under way. */
  finish() {
    for (const item of [...this.items.values()]) {
      if (item.status === "speaking") this.#update(item, { status: "cancelled" });
      else if (item.status === "hearing") this.#remove(item);
    }
  }

  /** The latest items, to be given to `restore` after a refresh. */
  snapshot() {
    return [...this.items.values()].slice(-KEPT_ITEMS).map((item) => ({ ...item, alias: this.#aliasOf(item) }));
  }

  restore(items) {
    for (const { alias, ...item } of items ?? []) {
      if (alias) this.#aliases.set(alias, item.id);
      this.#local = Math.max(this.#local, Number(/^local-(\d+)$/.exec(item.id)?.[1] ?? 0));
      this.#put(item);
    }
  }

  receive(event) {
    this.#handlers[event.type]?.call(this, event);
  }

  #handlers = {
    "input_audio_buffer.speech_started": ({ item_id: id }) => {
      for (const item of this.items.values()) if (item.status === "hearing") this.#remove(item);
      if (!this.#find(id)) this.#put({ id, role: "user", text: "", status: "hearing" });
    },
    "input_audio_buffer.speech_stopped": ({ item_id: id }) => {
      setTimeout(() => {
        const item = this.items.get(id);
        if (item?.status === "hearing") this.#remove(item);
      }, MISSED_MS);
    },
    "conversation.item.input_audio_transcription.completed": ({ item_id: id, transcript, language }) => {
      const typed = this.#pending(transcript);
      if (typed) this.#confirm(typed, id);
      else this.#put({ ...this.#find(id), id: this.#find(id)?.id ?? id, role: "user", text: transcript, language, status: "done" });
    },
    "conversation.item.input_audio_transcription.delta": ({ item_id: id, delta }) => {
      const item = this.items.get(id);
      if (item?.status === "hearing") this.#update(item, { text: item.text + delta });
    },
    "parley.backchannel": ({ item_id: id }) => {
      if (this.items.has(id)) this.#remove(this.items.get(id));
    },
    "conversation.item.input_audio_transcription.failed": ({ item_id: id, error }) => {
      if (NOTHING_SAID.has(error?.code)) {
        if (this.items.has(id)) this.#remove(this.items.get(id));
        return;
      }
      this.#put({ ...this.items.get(id), id, role: "user", text: "", status: "missed" });
    },
    // A reply that is known already comes again from its beginning: the session was taken up in its midst.
    "response.created": ({ response: { id } }) => {
      if (this.items.has(id)) this.#update(this.items.get(id), { text: "", heard: 0, status: "speaking" });
    },
    "response.output_audio_transcript.delta": (event) => this.#grow(event, false),
    "response.output_text.delta": (event) => this.#grow(event, true),
    "parley.heard": ({ response_id: id, chars }) => {
      const item = this.items.get(id);
      if (item && chars > item.heard) this.#update(item, { heard: chars });
    },
    "response.output_audio_transcript.done": ({ response_id: id, transcript }) => {
      const item = this.items.get(id);
      if (item && item.text.startsWith(transcript)) {
        this.#update(item, { heard: Math.max(item.heard, codePoints(transcript)) });
      }
    },
    "response.done": ({ response }) => {
      const item = this.items.get(response.id);
      if (!item) return;
      const heard = response.status === "completed" ? codePoints(item.text) : item.heard;
      this.#update(item, { status: response.status, heard });
    },
    "parley.notice": ({ text }) => {
      this.#put({ id: this.#newId(), role: "notice", text, status: "done" });
    },
    "parley.turn": ({ response_id: id, timings_ms: timings, spans_ms: spans, usage, early }) => {
      const item = this.items.get(id);
      if (item) this.#update(item, { turn: { timings: timings ?? {}, spans: spans ?? {}, usage: usage ?? {}, early: early ?? {} } });
    },
    "parley.history": ({ items }) => {
      this.finish(); // A reply that goes on all the same is told of next.
      items.forEach((item) => this.#remember(item));
    },
  };

  /** What the server knows of the conversation after a resume; the page may know more of it, or less. */
  #remember({ id, role, text, unheard }) {
    const known = this.#find(id);
    if (role === "user") {
      const typed = known ? null : this.#pending(text);
      if (typed) this.#confirm(typed, id);
      else this.#put({ ...known, id: known?.id ?? id, role, text, status: "done" });
      return;
    }
    // The page may know more of what would have come: the server keeps what it could still say.
    const whole = known?.text.startsWith(text) ? known.text : join(text, unheard ?? "");
    const silent = known?.silent ?? false;
    const status = silent || whole.slice(text.length).trim() === "" ? "completed" : "cancelled";
    const heard = codePoints(status === "completed" ? whole : text);
    this.#put({ ...known, id: known?.id ?? id, role: "parley", text: whole, heard, silent, status });
  }

  #grow({ response_id: id, delta }, silent) {
    const item = this.items.get(id) ?? { id, role: "parley", text: "", heard: 0, status: "speaking", silent };
    const text = item.text + delta;
    this.#put({ ...item, text, heard: silent ? codePoints(text) : item.heard });
  }

  #find(id) {
    return this.items.get(this.#aliases.get(id) ?? id);
  }

  #aliasOf(item) {
    return [...this.#aliases].find(([, id]) => id === item.id)?.[0];
  }

  #pending(text) {
    return [...this.items.values()].find((item) => item.status === "pending" && same(item.text, text));
  }

  #confirm(item, serverId) {
    this.#aliases.set(serverId, item.id);
    this.#update(item, { status: "done" });
  }

  #newId() {
    this.#local += 1;
    return `local-${this.#local}`;
  }

  #update(item, changes) {
    this.#put({ ...this.items.get(item.id), ...changes });
  }

  #put(item) {
    const dated = { at: Date.now(), ...item };
    this.items.set(dated.id, dated);
    this.#changed(dated);
  }

  #remove(item) {
    this.items.delete(item.id);
    this.#removed(item);
  }
}
