// The reply, 24 kHz in pieces of 20 ms as the network brings them, played without clicks at the rate of the device.
//
// What was sent counts as heard, so nothing spoken is thrown away but in need: a buffer that has grown too long
// shrinks in the pauses. It begins short and grows only where the network turns out to be uneven. At each beginning of
// speech it tells how many ms are played before it.

const RATE_HZ = 24000;
const MS = RATE_HZ / 1000;
const SHORTEST = 60 * MS;
const LONGEST = 200 * MS;
const LONGER = 40 * MS; // Each time that it ran dry in mid-speech...
const SHORTER = 20 * MS; // ...and after so long without.
const CALM_S = 10;
const SPARE = 60 * MS; // Beyond what it waits for; more is taken out of the pauses.
const LIMIT = 1000 * MS; // The server sends no more than half of it at once.
const QUIET = 64 / 32768; // -54 dB: a pause.
const RAMP_S = 0.005;
const PIECE_LIMIT = 8192;

registerProcessor(
  "parley-playback",
  class extends AudioWorkletProcessor {
    #resampler = new globalThis.Resampler(RATE_HZ, Math.round(sampleRate), PIECE_LIMIT);
    #queue = [];
    #queued = 0;
    #target = SHORTEST;
    #calmSince = currentTime;
    #playing = false;
    #loud = false; // The piece that is being played.
    #came = false; // Whether the piece that came last was loud.
    #ready = new Float32Array(0); // Of it, at the rate of the device, from `#at` on.
    #at = 0;
    #gain = 0;
    #last = 0;
    #over = false;

    constructor() {
      super();
      this.port.onmessage = ({ data }) => {
        if (data instanceof ArrayBuffer) this.#arrive(new Int16Array(data.slice(0, data.byteLength & ~1)));
        else this.#over = true;
      };
    }

    process(_, [[out]]) {
      if (!this.#playing && this.#queued >= this.#target) {
        this.#playing = true;
        this.#gain = 0;
      }
      const ramp = 1 / (RAMP_S * sampleRate);
      for (let index = 0; index < out.length; index++) {
        while (this.#playing && this.#at === this.#ready.length) this.#next();
        if (this.#playing) {
          this.#gain = Math.min(1, this.#gain + ramp);
          this.#last = out[index] = this.#ready[this.#at++] * this.#gain;
        } else if (this.#gain > 0) {
          // Nothing is left to fade: what was last heard is carried on for a moment.
          this.#gain = Math.max(0, this.#gain - ramp);
          out[index] = this.#last * this.#gain;
        }
      }
      return !this.#over;
    }

    #arrive(pcm) {
      for (let at = 0; at < pcm.length; at += PIECE_LIMIT) {
        const piece = Float32Array.from(pcm.subarray(at, at + PIECE_LIMIT), (sample) => sample / 32768);
        const loud = piece.some((sample) => Math.abs(sample) > QUIET);
        if (!loud && this.#queued > this.#target + SPARE) continue;
        if (loud && !this.#came) this.port.postMessage(Math.max(this.#queued, this.#playing ? 0 : this.#target) / MS);
        this.#came = loud;
        this.#queue.push({ piece, loud });
        this.#queued += piece.length;
      }
      while (this.#queued > LIMIT) this.#queued -= this.#queue.shift().piece.length;
    }

    #next() {
      const next = this.#queue.shift();
      if (!next) return this.#dry();
      this.#queued -= next.piece.length;
      this.#loud = next.loud;
      this.#ready = this.#resampler.process(next.piece);
      this.#at = 0;
      if (currentTime - this.#calmSince < CALM_S) return undefined;
      this.#target = Math.max(SHORTEST, this.#target - SHORTER);
      this.#calmSince = currentTime;
      return undefined;
    }

    #dry() {
      this.#playing = false;
      if (!this.#loud) return;
      this.#target = Math.min(LONGEST, this.#target + LONGER);
      this.#calmSince = currentTime;
    }
  },
);
