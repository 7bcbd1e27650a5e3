// One call over a WebSocket: events as text, sound as binary messages through two worklets. Knows nothing of the page.

import { closedProblem, Problem } from "./problem.js";
import { protocols, refusedWith } from "./server.js";

const PING_MS = 3000;
const SILENCE_MS = 10000; // Three heartbeats unanswered, and no sound either: the server is gone.
const CHECK_MS = 3000; // After a change of network or a closed lid: how long an answer may take.
const BACKLOG = 16000; // Bytes, half a second of sound: what is older than that by the time it arrives is not heard.
const BLOCKED_MS = 500;
const HUNG_UP = 1000;
const LEFT = 4001; // Browsers allow no 1001; any code but 1000 leaves.

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const worklet = (name) => new URL(`./worklets/${name}.js`, import.meta.url);

/** As Call (call.js), and "blocked": the browser plays nothing until `wake()` is called inside a click. */
export class SocketCall extends EventTarget {
  transport = "websocket";
  stream = new MediaStream();
  #config;
  #context = null;
  #capture = null;
  #playback = null;
  #source = null;
  #socket = null;
  #timers = [];
  #lastHeard = 0;
  #pinged = 0;
  #roundTripMs = null;
  #aheadMs = null; // What was waiting to be played when the reply's sound came.
  #connected = null; // Settles `connect`.
  #ended = false;

  constructor(config) {
    super();
    this.#config = config;
  }

  async connect(track, { session, resume } = {}) {
    if (!window.WebSocket || !window.AudioWorkletNode) throw new Problem("unsupported");
    try {
      await Promise.race([this.#prepare(track), after(this.#limitMs).then(() => Promise.reject(new Problem("no_connection")))]);
      if (this.#ended) return;
      await this.#open({ type: "parley.start", session, resume });
    } catch (error) {
      resume ? this.leave() : this.close();
      throw error instanceof Problem ? error : new Problem("no_connection");
    }
    this.#watch();
  }

  get open() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  send(event) {
    if (this.open) this.#socket.send(JSON.stringify(event));
  }

  async use(track) {
    this.#source?.disconnect();
    this.#source = track && this.#context ? this.#context.createMediaStreamSource(new MediaStream([track])) : null;
    this.#source?.connect(this.#capture);
  }

  async check() {
    const asked = performance.now();
    this.#ping("check");
    await after(CHECK_MS);
    if (this.#lastHeard < asked) this.#lose(new Problem("connection_lost"));
  }

  /** Let sound be played; inside a click, where the browser wants one. */
  wake() {
    this.#context?.resume().catch(() => {});
  }

  /** As Call's. Nothing is lost on this way; it comes late instead. */
  async measure() {
    const { outputLatency = 0, baseLatency = 0 } = this.#context;
    const playoutMs = this.#aheadMs === null ? null : this.#aheadMs + 1000 * (outputLatency || baseLatency);
    return { roundTripMs: this.#roundTripMs, playoutMs, lost: null, packets: null };
  }

  close() {
    this.#end(HUNG_UP);
  }

  leave() {
    this.#end(LEFT);
  }

  /** A browser may want a click first, and a phone call may take the sound away in between. */
  #keepPlaying() {
    const context = this.#context;
    if (this.#ended || context.state === "running") return;
    this.wake();
    const ask = () => !this.#ended && context.state !== "running" && this.dispatchEvent(new Event("blocked"));
    this.#timers.push(setTimeout(ask, BLOCKED_MS));
  }

  get #limitMs() {
    return (this.#config.connect_timeout_s ?? 15) * 1000;
  }

  /** One context for both directions, at the rate of the device: some browsers mix no others with a microphone. */
  async #prepare(track) {
    const context = (this.#context = new AudioContext({ latencyHint: "interactive" }));
    context.addEventListener("statechange", () => this.#keepPlaying());
    this.#keepPlaying();
    await context.audioWorklet.addModule(worklet("resampler"));
    await Promise.all([context.audioWorklet.addModule(worklet("capture")), context.audioWorklet.addModule(worklet("playback"))]);
    if (this.#ended) return;
    const mono = { channelCount: 1, channelCountMode: "explicit" };
    this.#capture = new AudioWorkletNode(context, "parley-capture", { ...mono, numberOfOutputs: 0 });
    this.#capture.port.onmessage = ({ data }) => this.#sendSound(data);
    this.#playback = new AudioWorkletNode(context, "parley-playback", { numberOfInputs: 0, outputChannelCount: [1] });
    // A worklet that breaks stays silent for good: a new connection has new ones.
    for (const node of [this.#capture, this.#playback]) node.onprocessorerror = () => this.#lose(new Problem("connection_lost"));
    this.#playback.port.onmessage = ({ data }) => (this.#aheadMs = data);
    const destination = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
    this.#playback.connect(destination);
    this.stream = destination.stream;
    await this.use(track);
  }

  #open(start) {
    const url = new URL("call", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.#socket = new WebSocket(url, protocols()));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => socket.send(JSON.stringify(start)));
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    return new Promise((resolve, reject) => {
      this.#connected = { resolve, reject };
      this.#timers.push(setTimeout(() => reject(new Problem("no_connection")), this.#limitMs));
      socket.addEventListener("close", () => {
        reject(new Problem("no_connection"));
        this.#lose(new Problem("connection_lost"));
      });
    });
  }

  #sendSound(piece) {
    if (this.open && this.#connected === null && this.#socket.bufferedAmount < BACKLOG) this.#socket.send(piece);
  }

  #receive(data) {
    this.#lastHeard = performance.now();
    if (data instanceof ArrayBuffer) {
      this.#playback.port.postMessage(data, [data]);
      return;
    }
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return;
    }
    if (event === null || typeof event !== "object") return;
    if (event.type === "parley.pong") return void (this.#roundTripMs = performance.now() - this.#pinged);
    if (this.#connected && event.type === "error") return void this.#connected.reject(refusedWith(event.error));
    this.dispatchEvent(new CustomEvent("message", { detail: event }));
    if (event.type === "session.created") this.#begun();
    if (event.type === "parley.closed") this.#lose(closedProblem(event.reason));
  }

  #begun() {
    this.#connected?.resolve();
    this.#connected = null;
  }

  #watch() {
    let pings = 0;
    const beat = () => {
      if (performance.now() - this.#lastHeard > SILENCE_MS) this.#lose(new Problem("connection_lost"));
      else this.#ping(String(++pings));
    };
    beat();
    this.#timers.push(setInterval(beat, PING_MS));
  }

  #lose(problem) {
    if (this.#ended || this.#connected) return;
    this.leave();
    this.dispatchEvent(new CustomEvent("lost", { detail: problem }));
  }

  #ping(id) {
    this.#pinged = performance.now();
    this.send({ type: "parley.ping", id });
  }

  #end(code) {
    if (this.#ended) return;
    this.#ended = true;
    this.#timers.forEach(clearInterval);
    this.#connected?.reject(new Problem("no_connection"));
    this.#source?.disconnect();
    for (const node of [this.#capture, this.#playback]) node?.port.postMessage("over");
    this.stream.getTracks().forEach((track) => track.stop());
    this.#context?.close().catch(() => {});
    this.#socket?.close(code);
  }
}
