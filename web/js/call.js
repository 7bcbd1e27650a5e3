// One WebRTC call: offer, answer, data channel, heartbeat. Knows nothing of the page.

import { PeerStats } from "./latency/peer-stats.js";
import { closedProblem, Problem } from "./problem.js";
import { hangUp, leave, offer } from "./server.js";

const GATHERING_MS = 2000; // An unreachable STUN server must not hold up a call on the local network.
const PING_MS = 3000;
const SILENCE_MS = 10000; // Three heartbeats unanswered: the server is gone, whatever ICE still believes.
const RECOVERY_MS = 6000; // ICE often comes back from "disconnected" by itself within this.
const FAREWELL_MS = 2000;
const CHECK_MS = 3000; // After a change of network or a closed lid: how long an answer may take.

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Events: "message" (detail: the server's event), "lost" (detail: Problem; the call is over).
 * `stream` holds the reply's track once connected. (An element that began with an empty stream would stay
 * silent when the track joins, so it is given to one only then.)
 */
export class Call extends EventTarget {
  transport = "webrtc";
  #config;
  #peer = null;
  #channel = null;
  #sender = null;
  #callId = null;
  #timers = [];
  #lastHeard = 0;
  #pinged = 0;
  #roundTripMs = null;
  #stats = new PeerStats();
  #ended = false;
  stream = new MediaStream();

  constructor(config) {
    super();
    this.#config = config;
  }

  /**
   * Connect; `track` may be null (no microphone yet). Resolves once events can flow. Throws Problem.
   * `session` is the session object asked for, `resume` {token, heard} takes up one that was left.
   */
  async connect(track, { session, resume } = {}) {
    if (!window.RTCPeerConnection) throw new Problem("unsupported");
    let peer;
    try {
      peer = this.#peer = new RTCPeerConnection({ iceServers: this.#config.ice_servers ?? [] });
    } catch {
      throw new Problem("no_connection"); // A server in the list that this browser does not take.
    }
    this.#channel = peer.createDataChannel("oai-events");
    // The sender exists even without a track, so that a microphone can join later without a new offer.
    this.#sender = peer.addTransceiver(track ?? "audio", { direction: "sendrecv" }).sender;
    peer.addEventListener("track", ({ track: reply }) => this.stream.addTrack(reply));
    this.#channel.addEventListener("message", ({ data }) => this.#receive(data));
    try {
      await peer.setLocalDescription();
      await this.#gathered();
      const answer = await offer(peer.localDescription, { session, resume });
      this.#callId = answer.call_id;
      if (this.#ended) return this.#release(hangUp);
      await peer.setRemoteDescription({ type: answer.type, sdp: answer.sdp });
      await this.#opened();
    } catch (error) {
      // Whoever tries another way needs the place that this one holds.
      await (resume ? this.leave() : this.close());
      throw error instanceof Problem ? error : new Problem("no_connection");
    }
    this.#watch();
  }

  get open() {
    return this.#channel?.readyState === "open";
  }

  send(event) {
    if (this.open) this.#channel.send(JSON.stringify(event));
  }

  /** Speak through `track` from now on; null stops sending. */
  async use(track) {
    await this.#sender?.replaceTrack(track);
  }

  /** Whether the server still answers; if not, the call is lost sooner than the heartbeat would find out. */
  async check() {
    const asked = performance.now();
    this.#ping("check");
    await after(CHECK_MS);
    if (this.#lastHeard < asked) this.#lose(new Problem("connection_lost"));
  }

  /** What the way costs just now: { roundTripMs, playoutMs, lost, packets }, each null where the browser does not tell. */
  async measure() {
    const seen = this.#stats.read(await this.#peer.getStats());
    // Both hold what the two ends were busy with; the lesser is nearer to what the network takes.
    const trips = [seen.roundTripMs, this.#roundTripMs].filter(Number.isFinite);
    return { ...seen, roundTripMs: trips.length ? Math.min(...trips) : null };
  }

  /** Hang up: the session ends. Idempotent, as are all ways to end. */
  close() {
    return this.#end(hangUp);
  }

  /** Go, but let the session wait for somebody to come back with its token. */
  leave() {
    return this.#end(leave);
  }

  #ping(id) {
    this.#pinged = performance.now();
    this.send({ type: "parley.ping", id });
  }

  #end(tell) {
    if (this.#ended) return undefined;
    this.#ended = true;
    return this.#release(tell);
  }

  #release(tell) {
    this.#timers.forEach(clearInterval);
    this.#sender?.replaceTrack(null).catch(() => {});
    const told = this.#callId ? Promise.race([tell(this.#callId), after(FAREWELL_MS)]) : null;
    this.#callId = null;
    const close = () => {
      this.#channel?.close();
      this.#peer?.close();
    };
    // A channel that closes before the server was told looks like a lost connection, whose session would be kept.
    if (told) told.then(close);
    else close();
    return told;
  }

  #lose(problem) {
    if (this.#ended) return;
    this.leave();
    this.dispatchEvent(new CustomEvent("lost", { detail: problem }));
  }

  #receive(data) {
    this.#lastHeard = performance.now();
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      return;
    }
    if (event === null || typeof event !== "object") return;
    if (event.type === "parley.pong") return void (this.#roundTripMs = performance.now() - this.#pinged);
    this.dispatchEvent(new CustomEvent("message", { detail: event }));
    if (event.type === "parley.closed") this.#lose(closedProblem(event.reason));
  }

  #gathered() {
    if (this.#peer.iceGatheringState === "complete") return undefined;
    const complete = new Promise((resolve) => {
      this.#peer.addEventListener("icegatheringstatechange", () => {
        if (this.#peer.iceGatheringState === "complete") resolve();
      });
    });
    return Promise.race([complete, after(GATHERING_MS)]);
  }

  #opened() {
    const limitMs = (this.#config.connect_timeout_s ?? 15) * 1000;
    return new Promise((resolve, reject) => {
      const fail = () => reject(new Problem("no_connection"));
      this.#timers.push(setTimeout(fail, limitMs));
      this.#channel.addEventListener("open", resolve);
      this.#channel.addEventListener("close", fail);
      this.#peer.addEventListener("connectionstatechange", () => {
        if (["failed", "closed"].includes(this.#peer.connectionState)) fail();
      });
    });
  }

  #watch() {
    const peer = this.#peer;
    this.#lastHeard = performance.now();
    let pings = 0;
    const beat = () => {
      if (performance.now() - this.#lastHeard > SILENCE_MS) this.#lose(new Problem("connection_lost"));
      else this.#ping(String(++pings));
    };
    beat();
    this.#timers.push(setInterval(beat, PING_MS));
    this.#channel.addEventListener("close", () => this.#lose(new Problem("connection_lost")));
    peer.addEventListener("connectionstatechange", async () => {
      if (peer.connectionState === "failed") this.#lose(new Problem("connection_lost"));
      if (peer.connectionState !== "disconnected") return;
      await after(RECOVERY_MS);
      if (peer.connectionState === "disconnected") this.#lose(new Problem("connection_lost"));
    });
  }
}
