// From one sample rate to another as the sound arrives: a polyphase windowed-sinc filter, the twin of
// app/audio/resample.py. Not every browser lets a worklet import, so this is loaded first and leaves its class
// in the worklet's own scope, which no page shares.

const ZERO_CROSSINGS = 24; // Of the sinc on each side, in samples of the lower rate.
const KAISER_BETA = 7.86; // 80 dB of stopband.
const CUTOFF = 0.94; // Of the lower Nyquist frequency.

const divisor = (a, b) => (b ? divisor(b, a % b) : a);

/** Modified Bessel function of the first kind, order 0 (its power series). */
function bessel(x) {
  let [sum, term] = [1, 1];
  for (let k = 1; term > 1e-10 * sum; k++) sum += term *= (x / (2 * k)) ** 2;
  return sum;
}

function filters(up, down, taps) {
  const length = taps * up;
  const prototype = Float64Array.from({ length }, (_, index) => {
    const time = ((index - length / 2) / Math.max(up, down)) * CUTOFF * Math.PI;
    const across = (2 * index) / length - 1;
    return (time === 0 ? 1 : Math.sin(time) / time) * bessel(KAISER_BETA * Math.sqrt(1 - across * across));
  });
  return Array.from({ length: up }, (_, phase) => {
    const taken = Float32Array.from({ length: taps }, (_, tap) => prototype[(taps - 1 - tap) * up + phase]);
    const sum = taken.reduce((total, value) => total + value, 0);
    return taken.map((value) => value / sum); // Otherwise the phases would repeat as a faint tone.
  });
}

globalThis.Resampler = class {
  /** `limit`: the most samples that are given at once. */
  constructor(fromHz, toHz, limit) {
    const common = divisor(fromHz, toHz);
    this.up = toHz / common;
    this.down = fromHz / common;
    this.same = fromHz === toHz;
    this.taps = Math.ceil(2 * ZERO_CROSSINGS * Math.max(1, this.down / this.up));
    this.filters = this.same ? [] : filters(this.up, this.down, this.taps);
    this.sound = new Float32Array(this.taps - 1 + limit);
    this.out = new Float32Array(Math.ceil((limit * this.up) / this.down) + 1);
    this.phase = 0;
  }

  /** The next samples; what it gives is valid until the next call. */
  process(input) {
    if (this.same) return input;
    const { sound, out, taps, up, down } = this;
    sound.set(input, taps - 1);
    let count = 0;
    for (; this.phase < input.length * up; this.phase += down) {
      const start = Math.floor(this.phase / up);
      const filter = this.filters[this.phase % up];
      let sum = 0;
      for (let tap = 0; tap < taps; tap++) sum += sound[start + tap] * filter[tap];
      out[count++] = sum;
    }
    this.phase -= input.length * up;
    sound.copyWithin(0, input.length, input.length + taps - 1);
    return out.subarray(0, count);
  }
};
