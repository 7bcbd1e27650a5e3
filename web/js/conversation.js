// What was said, derived from the server's events (docs/events.md). No DOM here.
//
// An item: { id, role: "user" | "parley" | "notice" | "call", text, status, heard, turn }.
// `heard` counts code points, as the server does. Status of a user item: "hearing", "pending", "done", "missed";
// of a reply: "speaking", "completed", "cancelled", "failed".

const MISSED_MS = 4000; // Speech that became no turn (a cough, a "mm-hm") leaves no empty bubble behind.

const NOTHING_SAID = new Set(["no_words", "echo"]);

export const codePoints = (text) => Array.from(text).length;

const same = (one, other) => one.replace(/\s+/g, " ").trim() === other.replace(/\s+/g, " ").trim();

export class Conversation {
  items = new Map();
  #changed;
  #removed;
  #local = 0;

  constructor({ changed, removed }) {
    this.#changed = changed;
    this.#removed = removed;
  }

  /** A line between two calls, if anything was said before. */
  begin() {
    if (this.items.size) this.#put({ id: this.#newId(), role: "call", text: "", status: "done" });
  }

  /** Show typed text at once; the server confirms it. */
  typed(text) {
    this.#put({ id: this.#newId(), role: "user", text, status: "pending" });
  }

  /** The call is over: nothing more will be heard or recognised. */
  finish() {
    for (const item of [...this.items.values()]) {
      if (item.status === "speaking") this.#update(item, { status: "cancelled" });
      else if (item.status === "hearing") this.#remove(item);
    }
  }

  receive(event) {
    this.#handlers[event.type]?.call(this, event);
  }

  #handlers = {
    "input_audio_buffer.speech_started": ({ item_id: id }) => {
      for (const item of this.items.values()) if (item.status === "hearing") this.#remove(item);
      if (!this.items.has(id)) this.#put({ id, role: "user", text: "", status: "hearing" });
    },
    "input_audio_buffer.speech_stopped": ({ item_id: id }) => {
      setTimeout(() => {
        const item = this.items.get(id);
        if (item?.status === "hearing") this.#remove(item);
      }, MISSED_MS);
    },
    "conversation.item.input_audio_transcription.completed": ({ item_id: id, transcript, language }) => {
      const typed = [...this.items.values()].find((item) => item.status === "pending" && same(item.text, transcript));
      if (typed) {
        this.#update(typed, { status: "done" });
        return;
      }
      this.#put({ ...this.items.get(id), id, role: "user", text: transcript, language, status: "done" });
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
    "response.output_audio_transcript.delta": ({ response_id: id, delta }) => {
      const item = this.items.get(id) ?? { id, role: "parley", text: "", heard: 0, status: "speaking" };
      this.#put({ ...item, text: item.text + delta });
    },
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
    "parley.turn": ({ response_id: id, timings_ms: timings, usage }) => {
      const item = this.items.get(id);
      if (item) this.#update(item, { turn: { timings: timings ?? {}, usage: usage ?? {} } });
    },
  };

  #newId() {
    this.#local += 1;
    return `local-${this.#local}`;
  }

  #update(item, changes) {
    this.#put({ ...this.items.get(item.id), ...changes });
  }

  #put(item) {
    this.items.set(item.id, item);
    this.#changed(item);
  }

  #remove(item) {
    this.items.delete(item.id);
    this.#removed(item);
  }
}
