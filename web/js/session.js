// The life of a call as the person sees it: idle, permission, connecting, call, reconnecting, full, left, elsewhere, ended.

import { ByHand } from "./by-hand.js";
import { connect } from "./connect.js";
import { preferences, sessionChange, sessionOptions } from "./preferences.js";
import { asProblem, Problem } from "./problem.js";
import { configuration, endSession } from "./server.js";
import { VoiceIn } from "./voice-in.js";
import { delays, pauseUnlessBack } from "./waiting.js";

const OVER = new Set(["idle", "full", "left", "elsewhere", "ended"]); // Phases in which a call may be begun.
const PASSING = new Set(["server_unreachable", "no_connection", "too_busy", "session_limit", "connection_lost", "server_stopping"]);
const FULL = new Set(["session_limit", "too_busy"]);
const RETRY_S = 5;

/**
 * Events: "change" (phase, state or microphone changed), "message" (detail: server event), "problem" (detail: Problem),
 * "blocked" (the browser refused to play sound), "streams" (`microphone` or `voice` is another one now),
 * "anew" (the call that was left could not be taken up: this is a new one), "dropped" (what was typed and not sent will not be).
 */
export class Session extends EventTarget {
  phase = "idle";
  state = "listening";
  config = {};
  voiceIn = new VoiceIn();
  byHand = new ByHand(this);
  /** In phase "full": the moment of the next try, on the clock of performance.now(); null until the person asks to wait. */
  retryAt = null;
  /** In phase "reconnecting": the code of what is in the way, "" if nothing is known to be. */
  trouble = "";
  #attempt = null;
  #call = null;
  #dialling = null; // Not connected yet.
  #keepsake;
  #heard = null;
  #resuming = false;
  #before = "left"; // The phase from which a call was gone on with.
  #queue = [];
  #audio;
  #levels;

  constructor(audio, levels, keepsake) {
    super();
    this.#audio = audio;
    this.#levels = levels;
    this.#keepsake = keepsake;
    if (keepsake.call) this.phase = "left";
    this.voiceIn.addEventListener("change", () => this.#changed());
    this.microphone.addEventListener("problem", ({ detail }) => this.#report(detail));
    this.microphone.addEventListener("track", () => this.#microphoneChanged());
    const look = () => this.#call?.check?.();
    // A phone call or unplugged headphones may halt what plays; the browser does not begin again by itself.
    audio.addEventListener("pause", () => this.phase === "call" && this.#play(audio.srcObject));
    addEventListener("online", look);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
  }

  get active() {
    return !OVER.has(this.phase) || this.retryAt !== null;
  }

  get microphone() {
    return this.voiceIn.microphone;
  }

  get hasMicrophone() {
    return this.microphone.track !== null;
  }

  /** How sound travels in this call: "webrtc" or "websocket"; "" outside a call. */
  get transport() {
    return this.#call?.transport ?? "";
  }

  /** What both sides sound like, as streams; null where there is none. */
  get streams() {
    const { track } = this.microphone;
    return { microphone: track && new MediaStream([track]), voice: this.#call?.stream ?? null };
  }

  /** What a saved turn of this call is fetched with. */
  get resumeToken() {
    return this.#keepsake.call?.token ?? "";
  }

  /** What the call's way costs just now (call.js); null outside a call. */
  async measure() {
    return (await this.#call?.measure()) ?? null;
  }

  /** Begin a call; must be called inside a click or key press, or browsers will not play sound. */
  async start({ microphone }) {
    if (this.active) return;
    // The call that waits for this tab would hold a place that the new one may need.
    const ended = this.phase === "left" ? endSession(this.resumeToken) : null;
    if (ended) this.#drop();
    this.#keepsake.forget();
    const attempt = this.#begin(microphone ? "permission" : "connecting");
    try {
      await this.#prepare(microphone);
      await ended;
      if (this.#attempt !== attempt) return;
      this.#enter("connecting");
      await this.#connect(attempt);
    } catch (error) {
      if (this.#attempt !== attempt) return;
      const problem = asProblem(error);
      this.#finish(FULL.has(problem.code) ? "full" : "idle");
      this.#report(problem);
    }
  }

  /** The server is full: try again until there is a line or the person has enough. */
  async waitForLine({ microphone, retryAfterS }) {
    if (this.active) return;
    const attempt = this.#begin("full");
    try {
      await this.#prepare(microphone);
      while (this.#attempt === attempt) {
        const waitMs = (retryAfterS ?? RETRY_S) * 1000;
        this.retryAt = performance.now() + waitMs;
        this.#enter("full");
        await pauseUnlessBack(waitMs);
        if (this.#attempt === attempt && (await this.#lineFree(attempt))) return;
      }
    } catch (error) {
      if (this.#attempt !== attempt) return;
      this.#finish("idle");
      this.#report(asProblem(error));
    }
  }

  /** Take up the call that this tab has left (a refresh) or that went elsewhere. */
  async goOn() {
    const kept = this.#keepsake.call;
    if (this.active || !kept) return;
    this.#heard = kept.heard ?? null;
    this.#resuming = true;
    this.#before = this.phase;
    const attempt = this.#begin(kept.microphone ? "permission" : "reconnecting");
    this.voiceIn.muted = kept.muted ?? false; // Nobody is heard who had muted themselves before the refresh.
    // Without a microphone the call goes on all the same: one can type.
    await this.#prepare(kept.microphone).catch((error) => this.#report(asProblem(error)));
    if (this.#attempt === attempt) await this.#comeBack(attempt);
  }

  /** The page goes away, and may come back. `items` is what was said. */
  leave(items) {
    if (this.phase === "elsewhere" || !this.#keepsake.call) return;
    // A call that is just being taken up may not have its microphone back yet.
    const microphone = this.phase === "call" ? this.hasMicrophone : this.#keepsake.call.microphone;
    if (this.active) this.#keepsake.keep({ microphone, muted: this.voiceIn.muted, heard: this.#heard, items });
    (this.#call ?? this.#dialling)?.leave();
    if (this.active) this.#finish("left");
  }

  end() {
    if (!this.active) return;
    // Not gone on with after all: it still waits.
    if (this.phase === "permission" && this.#keepsake.call) return void this.#finish(this.#before);
    const phase = this.phase === "call" || this.phase === "reconnecting" ? "ended" : "idle";
    if (this.#call) this.#call.close();
    else if (this.#keepsake.call) endSession(this.resumeToken);
    this.#drop();
    this.#keepsake.forget();
    this.#finish(phase);
  }

  /** Forget the call that was left. */
  dismiss() {
    if (this.active) return;
    this.#keepsake.forget();
    this.#enter("idle");
  }

  /**
   * Type `text`; it waits while the call is being set up, also over a failed try. While a session is being taken up again
   * it is not kept: only `parley.history` tells what has reached the server.
   */
  say(text) {
    if (this.#resuming) return;
    if (this.phase === "call") this.#sendText(text);
    else if (this.active) this.#queue.push(text);
  }

  stopReply() {
    this.send({ type: "response.cancel" });
  }

  /** Tell the server something (docs/events.md); false outside a call. */
  send(event) {
    if (this.phase !== "call") return false;
    this.#call.send(event);
    return true;
  }

  /** Pause or go on; in a call without a microphone, ask for one. */
  async toggleMicrophone() {
    if (this.phase !== "call" && this.phase !== "reconnecting") return;
    if (this.hasMicrophone) this.voiceIn.muted = !this.voiceIn.muted;
    else await this.microphone.open().catch((error) => this.#report(asProblem(error)));
  }

  /** After the browser refused sound: called from another click. */
  hear() {
    this.#levels.wake();
    this.#call?.wake?.();
    this.#play(this.#audio.srcObject);
  }

  #begin(phase) {
    this.#levels.wake();
    this.state = "listening";
    this.voiceIn.reset();
    this.#attempt = Symbol("attempt");
    this.#enter(phase);
    return this.#attempt;
  }

  async #prepare(microphone) {
    const opening = microphone ? this.microphone.open() : null;
    // Nothing to play yet; asking for it now ties the permission to play to this gesture.
    this.#play(new MediaStream());
    await opening;
  }

  async #connect(attempt, resume) {
    this.config = await configuration();
    if (this.#attempt !== attempt) return;
    // A session that is taken up has its options already.
    const session = resume ? undefined : sessionOptions(this.config);
    const listen = (call) => {
      if (this.#attempt !== attempt) throw new Problem("cancelled"); // While the way before this one was tried.
      this.#listen((this.#dialling = call));
    };
    const call = await connect(this.config, this.microphone.track, { session, resume, listen });
    if (this.#attempt !== attempt) return call.close();
    this.#call = call;
    this.#dialling = null;
    await call.use(this.microphone.track); // It may be another one by now.
    this.#play(call.stream);
    this.#levels.watch("voice", call.stream);
    this.#enter("call");
    this.dispatchEvent(new Event("streams"));
    this.#queue.splice(0).forEach((text) => this.#sendText(text));
  }

  async #lineFree(attempt) {
    this.retryAt = null;
    try {
      this.#enter("connecting");
      await this.#connect(attempt);
      return true;
    } catch (error) {
      if (!PASSING.has(asProblem(error).code)) throw error;
      return false;
    }
  }

  #lost(call, problem) {
    if (this.#call !== call) return;
    if (PASSING.has(problem.code) && this.#keepsake.call) {
      this.#keepsake.keep({ microphone: this.hasMicrophone, heard: this.#heard });
      this.#comeBack((this.#attempt = Symbol("attempt")), problem.code);
      return;
    }
    this.#drop();
    if (problem.code === "replaced") {
      this.#keepsake.keep({ microphone: this.hasMicrophone, heard: null });
      this.#keepsake.hide();
      this.#finish("elsewhere");
    } else {
      this.#keepsake.forget();
      this.#finish("ended");
    }
    if (problem.code !== "goodbye" && problem.code !== "replaced") this.#report(problem); // The phase tells of those.
  }

  /** Try to take the session up again until the server has certainly forgotten it; then begin a new one. */
  async #comeBack(attempt, trouble = "") {
    this.trouble = trouble;
    this.#call = null;
    this.#audio.srcObject = null;
    this.voiceIn.pressed = false;
    this.#enter("reconnecting");
    const { token } = this.#keepsake.call;
    const { untilMs } = this.#keepsake;
    let resume = { token, heard: this.#heard };
    let problem = new Problem("connection_lost");
    for (const ms of delays()) {
      try {
        this.#resuming = resume !== undefined;
        if (this.#resuming) this.#queue.length = 0; // The conversation still knows it as unsent.
        await this.#connect(attempt, resume);
        return;
      } catch (error) {
        if (this.#attempt !== attempt) return;
        problem = asProblem(error);
      }
      this.#hindered(problem);
      if (problem.code === "resume_expired" && resume) {
        resume = undefined;
        this.#heard = null;
        this.#resuming = false; // Before those who are told type again.
        this.dispatchEvent(new Event("anew"));
        continue;
      }
      if (!PASSING.has(problem.code) || Date.now() > untilMs) break;
      await pauseUnlessBack(ms);
      if (this.#attempt !== attempt) return;
    }
    this.#drop();
    this.#keepsake.forget();
    this.#finish("ended");
    const gone = this.trouble === "server_stopping" ? "server_stopping" : "connection_lost";
    this.#report(PASSING.has(problem.code) && !FULL.has(problem.code) ? new Problem(gone) : problem);
  }

  /** A server that said it would stop is likely to be what does not answer now. */
  #hindered({ code }) {
    if (!PASSING.has(code) || (code === "server_unreachable" && this.trouble === "server_stopping")) return;
    this.trouble = code;
    this.#changed();
  }

  #sendText(text) {
    const content = [{ type: "input_text", text }];
    const silent = preferences.get("answers") === "silent";
    this.#call.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    this.#call.send({ type: "response.create", ...(silent && { response: { output_modalities: ["text"] } }) });
  }

  #listen(call) {
    call.addEventListener("message", ({ detail: event }) => {
      if (call !== this.#call && call !== this.#dialling) return;
      if (event.type === "session.created") this.#created(event.session);
      if (event.type === "parley.history") this.#resuming = false;
      if (event.type === "parley.heard") this.#heard = { response_id: event.response_id, chars: event.chars };
      if (event.type === "parley.state") {
        this.state = event.state;
        this.#changed();
      }
      this.dispatchEvent(new CustomEvent("message", { detail: event }));
    });
    call.addEventListener("lost", ({ detail }) => this.#lost(call, detail));
    call.addEventListener("blocked", () => this.dispatchEvent(new Event("blocked")));
  }

  #created({ resume, resumed, turn_detection: turns }) {
    if (resume) {
      this.#keepsake.keep({ token: resume.token, keepS: resume.keep_s, microphone: this.hasMicrophone });
    }
    // Meanwhile the person may have chosen another way to take turns.
    if (resumed && turns !== undefined && (turns === null) !== this.voiceIn.byHand) {
      (this.#call ?? this.#dialling).send({ type: "session.update", session: sessionChange("mode", this.config) });
    }
  }

  #microphoneChanged() {
    const { track } = this.microphone;
    this.#call?.use(track);
    if (track) this.#levels.watch("microphone", new MediaStream([track]));
    this.dispatchEvent(new Event("streams"));
  }

  #play(stream) {
    if (this.#audio.srcObject !== stream) this.#audio.srcObject = stream; // Given again it would begin anew.
    this.#audio.play().catch((error) => {
      // AbortError only says that a newer play() took over.
      if (error.name === "NotAllowedError") this.dispatchEvent(new Event("blocked"));
    });
  }

  #finish(phase) {
    this.#attempt = null;
    this.#dialling?.close();
    this.#call = this.#dialling = null;
    this.retryAt = null;
    this.#resuming = false;
    this.byHand.forget();
    this.microphone.close();
    this.#audio.srcObject = null;
    this.#levels.forget();
    this.#enter(phase);
  }

  #drop() {
    this.#queue.length = 0;
    this.dispatchEvent(new Event("dropped"));
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
