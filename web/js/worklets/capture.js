// The microphone as the server wants it: 16 kHz, 16 bits, mono, in pieces of 20 ms.

const RATE_HZ = 16000;
const PIECE = RATE_HZ / 50;
const QUANTUM = 128;

registerProcessor(
  "parley-capture",
  class extends AudioWorkletProcessor {
    #resampler = new globalThis.Resampler(Math.round(sampleRate), RATE_HZ, 2048);
    #piece = new Int16Array(PIECE);
    #filled = 0;
    #over = false;

    constructor() {
      super();
      this.port.onmessage = () => (this.#over = true);
    }

    process([[channel]]) {
      // Without a microphone nothing is sent; the server's clock goes on by itself.
      for (let at = 0; channel && at < channel.length; at += QUANTUM) {
        this.#take(this.#resampler.process(channel.subarray(at, at + QUANTUM)));
      }
      return !this.#over;
    }

    #take(samples) {
      for (const sample of samples) {
        this.#piece[this.#filled++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32767)));
        if (this.#filled < PIECE) continue;
        this.port.postMessage(this.#piece.buffer, [this.#piece.buffer]);
        this.#piece = new Int16Array(PIECE);
        this.#filled = 0;
      }
    }
  },
);
