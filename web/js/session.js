// The life of a call as the person sees it: idle, permission, connecting, call, ended.

import { Call } from "./call.js";
import { openMicrophone } from "./microphone.js";
import { asProblem, Problem } from "./problem.js";
import { configuration } from "./server.js";

/**
 * Events: "change" (phase, state or microphone changed), "message" (detail: server event),
 * "problem" (detail: Problem), "blocked" (the browser refused to play sound).
 */
export class Session extends EventTarget {
  phase = "idle";
  state = "listening";
  muted = false;
  #attempt = null;
  #call = null;
  #track = null;
  #queue = [];
  #audio;
  #levels;

  constructor(audio, levels) {
    super();
    this.#audio = audio;
    this.#levels = levels;
  }

  get active() {
    return this.phase !== "idle" && this.phase !== "ended";
  }

  get hasMicrophone() {
    return this.#track !== null;
  }

  /** Begin a call; must be called inside a click or key press, or browsers will not play sound. */
  async start({ microphone }) {
    if (this.active) return;
    this.#levels.wake();
    const attempt = Symbol("attempt");
    this.#attempt = attempt;
    let call = null;
    this.muted = false;
    this.state = "listening";
    try {
      this.#enter(microphone ? "permission" : "connecting");
      const starting = microphone ? openMicrophone() : null;
      // Nothing to play yet; asking for it now ties the permission to play to this gesture.
      this.#play(new MediaStream());
      const track = await starting;
      if (this.#attempt !== attempt) return void track?.stop();
      this.#adopt(track);
      this.#enter("connecting");
      const config = await configuration();
      if (this.#attempt !== attempt) return;
      call = this.#call = new Call(config);
      this.#listen(call);
      await call.connect(this.#track);
      if (this.#attempt !== attempt) return call.close();
      this.#play(call.stream);
      this.#levels.watch("voice", call.stream);
      this.#enter("call");
      this.#queue.splice(0).forEach((text) => this.#sendText(text));
    } catch (error) {
      call?.close();
      if (this.#attempt !== attempt) return;
      this.#finish("idle");
      this.#report(asProblem(error));
    }
  }

  end() {
    if (!this.active) return;
    const phase = this.phase === "call" ? "ended" : "idle";
    this.#call?.close();
    this.#queue.length = 0;
    this.#finish(phase);
  }

  /** Type `text`; it waits while the call is being set up, also over a failed try. */
  say(text) {
    if (this.phase === "call") this.#sendText(text);
    else if (this.active) this.#queue.push(text);
  }

  stopReply() {
    if (this.phase === "call") this.#call.send({ type: "response.cancel" });
  }

  /** Mute or unmute; in a call without a microphone, ask for one. */
  async toggleMicrophone() {
    if (this.phase !== "call") return;
    if (this.#track) {
      this.muted = !this.muted;
      this.#track.enabled = !this.muted;
    } else {
      try {
        const track = await openMicrophone();
        if (this.phase !== "call") return track.stop();
        this.#adopt(track);
        await this.#call.use(track);
      } catch (error) {
        this.#report(asProblem(error));
      }
    }
    this.#changed();
  }

  /** After the browser refused sound: called from another click. */
  hear() {
    this.#levels.wake();
    this.#play(this.#audio.srcObject);
  }

  #sendText(text) {
    const content = [{ type: "input_text", text }];
    this.#call.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    this.#call.send({ type: "response.create" });
  }

  #listen(call) {
    call.addEventListener("message", ({ detail }) => {
      if (this.#call !== call) return;
      if (detail.type === "parley.state") {
        this.state = detail.state;
        this.#changed();
      }
      this.dispatchEvent(new CustomEvent("message", { detail }));
    });
    call.addEventListener("lost", ({ detail }) => {
      if (this.#call !== call) return;
      this.#queue.length = 0;
      this.#finish("ended");
      if (detail.code !== "goodbye") this.#report(detail);
    });
  }

  #adopt(track) {
    this.#track = track;
    if (!track) return;
    this.#levels.watch("microphone", new MediaStream([track]));
    track.addEventListener("ended", () => {
      if (this.#track !== track) return;
      this.#track = null;
      this.#call?.use(null);
      this.#report(new Problem("microphone_lost"));
      this.#changed();
    });
  }

  #play(stream) {
    this.#audio.srcObject = stream;
    this.#audio.play().catch((error) => {
      // AbortError only says that a newer play() took over.
      if (error.name === "NotAllowedError") this.dispatchEvent(new Event("blocked"));
    });
  }

  #finish(phase) {
    this.#attempt = null;
    this.#call = null;
    this.#track?.stop();
    this.#track = null;
    this.#audio.srcObject = null;
    this.#levels.forget();
    this.#enter(phase);
  }

  #enter(phase) {
    this.phase = phase;
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  #report(problem) {
    this.dispatchEvent(new CustomEvent("problem", { detail: problem }));
  }
}
