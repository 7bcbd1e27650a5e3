// How loud both sides are, for the picture only.

const FLOOR_DB = -55;
const CEILING_DB = -12;

export class Levels {
  #context = null;
  #meters = new Map();

  /** Create or resume the audio context; inside a gesture, or it stays suspended. */
  wake() {
    this.#context ??= window.AudioContext ? new AudioContext({ latencyHint: "interactive" }) : null;
    this.#context?.resume().catch(() => {});
  }

  watch(name, stream) {
    if (!this.#context || stream.getAudioTracks().length === 0) return;
    this.#meters.get(name)?.source.disconnect();
    const source = this.#context.createMediaStreamSource(stream);
    const analyser = this.#context.createAnalyser();
    analyser.fftSize = 1024;
    source.connect(analyser);
    this.#meters.set(name, { source, analyser, samples: new Float32Array(analyser.fftSize) });
  }

  /** 0 (silence) to 1 (loud), on a scale of decibels as the ear has one. */
  read(name) {
    const meter = this.#meters.get(name);
    if (!meter) return 0;
    meter.analyser.getFloatTimeDomainData(meter.samples);
    const power = meter.samples.reduce((sum, sample) => sum + sample * sample, 0) / meter.samples.length;
    const db = 10 * Math.log10(power + 1e-10);
    return Math.min(1, Math.max(0, (db - FLOOR_DB) / (CEILING_DB - FLOOR_DB)));
  }

  /** A context that is only suspended would keep the nodes of each call. */
  forget() {
    this.#meters.forEach(({ source }) => source.disconnect());
    this.#meters.clear();
    this.#context?.close().catch(() => {});
    this.#context = null;
  }
}
