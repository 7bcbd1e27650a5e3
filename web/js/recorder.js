// Records both sides of a call in the browser: the person left of the middle, the reply right of it.

const PAN = 0.4;
const BITS_PER_S = 64_000;
const PIECE_MS = 1000;
const MOST_BYTES = 300 * 1024 * 1024; // Over ten hours; it is kept in the page's memory.
const TYPES = [
  ["audio/webm;codecs=opus", "webm"],
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
];

export const canRecord = () => Boolean(window.MediaRecorder && window.AudioContext);

/** Event: "stopped" when it ended by itself, for it grew too large or the browser failed. */
export class Recorder extends EventTarget {
  #context = new AudioContext();
  #mix;
  #sources = new Map();
  #media;
  #pieces = [];
  #bytes = 0;
  extension;
  startedAt = new Date();
  #startedMs = performance.now(); // The clock on the wall may be set meanwhile.

  constructor() {
    super();
    this.#mix = this.#context.createMediaStreamDestination();
    this.#context.resume().catch(() => {});
    const [type, extension] = TYPES.find(([type]) => MediaRecorder.isTypeSupported(type)) ?? ["", "webm"];
    this.extension = extension;
    this.#media = new MediaRecorder(this.#mix.stream, { ...(type && { mimeType: type }), audioBitsPerSecond: BITS_PER_S });
    this.#media.addEventListener("dataavailable", ({ data }) => this.#take(data));
    this.#media.addEventListener("error", () => this.dispatchEvent(new Event("stopped")));
    this.#media.start(PIECE_MS);
  }

  get seconds() {
    return (performance.now() - this.#startedMs) / 1000;
  }

  /** Record `microphone` and `voice` (streams or null) from now on. */
  hear({ microphone, voice }) {
    this.#connect("microphone", microphone, -PAN);
    this.#connect("voice", voice, PAN);
  }

  /** The recording as a Blob. */
  async stop() {
    if (this.#media.state !== "inactive") {
      const stopped = new Promise((resolve) => this.#media.addEventListener("stop", resolve, { once: true }));
      this.#media.stop();
      await stopped;
    }
    this.#context.close().catch(() => {});
    return new Blob(this.#pieces, { type: this.#media.mimeType });
  }

  #connect(name, stream, pan) {
    this.#sources.get(name)?.disconnect();
    this.#sources.delete(name);
    if (!stream?.getAudioTracks().length) return;
    const source = this.#context.createMediaStreamSource(stream);
    source.connect(new StereoPannerNode(this.#context, { pan })).connect(this.#mix);
    this.#sources.set(name, source);
  }

  #take(piece) {
    this.#pieces.push(piece);
    this.#bytes += piece.size;
    if (this.#bytes > MOST_BYTES && this.#media.state === "recording") this.dispatchEvent(new Event("stopped"));
  }
}
