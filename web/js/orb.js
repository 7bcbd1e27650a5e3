// The living picture: a soft body of light that takes its colour from the state and its motion from the sound.

const STATES = {
  idle: { colors: ["#7c8cff", "#b18cff", "#6cc8ff"], wave: 0.03, speed: 0.35, gain: 0 },
  permission: { colors: ["#8d97b8", "#a9a3c9", "#9fb8cf"], wave: 0.03, speed: 0.5, gain: 0 },
  connecting: { colors: ["#7f8fe0", "#a79bdc", "#86b7dc"], wave: 0.05, speed: 1.6, gain: 0 },
  listening: { colors: ["#2dd4bf", "#38bdf8", "#7aa2ff"], wave: 0.035, speed: 0.5, gain: 0.12 },
  hearing: { colors: ["#34d399", "#22d3ee", "#3b9bff"], wave: 0.06, speed: 1.1, gain: 0.26 },
  thinking: { colors: ["#a78bfa", "#e39bff", "#7c8cff"], wave: 0.07, speed: 2.2, gain: 0 },
  speaking: { colors: ["#ff9a5a", "#ff6fae", "#a78bfa"], wave: 0.05, speed: 1.1, gain: 0.28 },
  ready: { colors: ["#5eb8d8", "#7aa2ff", "#8fb4e8"], wave: 0.03, speed: 0.4, gain: 0 },
  muted: { colors: ["#8b93a7", "#a5abba", "#7d869c"], wave: 0.02, speed: 0.25, gain: 0 },
  reconnecting: { colors: ["#d9a441", "#c9a27a", "#a79bdc"], wave: 0.05, speed: 1.6, gain: 0 },
  full: { colors: ["#d9a441", "#e0b98a", "#c9a27a"], wave: 0.02, speed: 0.3, gain: 0 },
  left: { colors: ["#7c8cff", "#b18cff", "#6cc8ff"], wave: 0.02, speed: 0.25, gain: 0 },
  elsewhere: { colors: ["#9aa1b3", "#b6bac8", "#8790a6"], wave: 0.02, speed: 0.2, gain: 0 },
  ended: { colors: ["#9aa1b3", "#b6bac8", "#8790a6"], wave: 0.02, speed: 0.2, gain: 0 },
};

const LAYERS = 3;
const POINTS = 96;
const FRAME_MS = 30; // Every second frame of most screens: smooth for what moves so slowly, at half the work.
const CALM_FRAME_MS = 200; // With reduced motion only the ring follows the sound, a few times a second.

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const css = ([r, g, b], alpha) => `rgb(${r | 0} ${g | 0} ${b | 0} / ${alpha})`;
// Fast up, slow down: speech should light up at once and not flicker between syllables.
const follow = (from, to, seconds) => toward(from, to, 1 - Math.exp(-(to > from ? 22 : 6) * seconds));
const toward = (from, to, share) => from + (to - from) * share;

export class Orb {
  #canvas;
  #level;
  #context;
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #target = STATES.idle;
  #colors = STATES.idle.colors.map(rgb);
  #wave = STATES.idle.wave;
  #speed = STATES.idle.speed;
  #loudness = 0; // Of the side that the state is about.
  #ringing = 0; // Of the microphone, always: one sees that one is heard, also while the reply is spoken.
  #phase = 0;
  #drawnAt = 0;

  /** `level(side)` gives 0..1, for "microphone" and "voice". */
  constructor(canvas, level) {
    this.#canvas = canvas;
    this.#level = level;
    this.#context = canvas.getContext("2d");
    this.#calm.addEventListener("change", () => this.#request());
    this.#request();
  }

  set state(name) {
    this.name = name;
    this.#target = STATES[name] ?? STATES.idle;
  }

  #request() {
    requestAnimationFrame((now) => {
      const elapsed = now - this.#drawnAt;
      if (elapsed >= (this.#calm.matches ? CALM_FRAME_MS : FRAME_MS)) {
        this.#advance(Math.min(elapsed, 100) / 1000);
        this.#draw();
        this.#drawnAt = now;
      }
      this.#request();
    });
  }

  #advance(seconds) {
    const target = this.#target;
    const calm = this.#calm.matches;
    const share = calm ? 1 : 1 - Math.exp(-5 * seconds);
    this.#colors = this.#colors.map((color, i) => color.map((part, j) => toward(part, rgb(target.colors[i])[j], share)));
    this.#wave = toward(this.#wave, target.wave, share);
    this.#speed = toward(this.#speed, target.speed, share);
    const side = this.name === "speaking" ? "voice" : "microphone";
    this.#loudness = follow(this.#loudness, target.gain ? this.#level(side) : 0, seconds);
    this.#ringing = follow(this.#ringing, target.gain ? this.#level("microphone") : 0, seconds);
    if (!calm) this.#phase += seconds * (this.#speed + 1.4 * this.#loudness);
  }

  #draw() {
    const size = this.#fit();
    const context = this.#context;
    const center = size / 2;
    const swell = this.#calm.matches ? 0 : this.#target.gain * this.#loudness * 0.5;
    const radius = size * 0.275 * (1 + swell + (this.#calm.matches ? 0 : 0.012 * Math.sin(this.#phase * 1.7)));
    context.clearRect(0, 0, size, size);
    this.#glow(center, radius);
    for (let layer = LAYERS - 1; layer >= 0; layer--) this.#body(center, radius, layer);
    this.#shine(center, radius);
    this.#ring(center, size);
  }

  #fit() {
    const scale = Math.min(devicePixelRatio || 1, 2);
    const size = Math.round(this.#canvas.clientWidth * scale);
    if (this.#canvas.width !== size) this.#canvas.width = this.#canvas.height = size;
    return size;
  }

  #glow(center, radius) {
    // It must have faded out at the edge of the canvas, or the square would show.
    const glow = this.#context.createRadialGradient(center, center, radius * 0.6, center, center, center);
    glow.addColorStop(0, css(this.#colors[1], 0.42 + 0.3 * this.#loudness));
    glow.addColorStop(0.55, css(this.#colors[0], 0.13 + 0.12 * this.#loudness));
    glow.addColorStop(1, css(this.#colors[0], 0));
    this.#context.fillStyle = glow;
    this.#context.fillRect(0, 0, center * 2, center * 2);
  }

  #body(center, radius, layer) {
    const context = this.#context;
    const turn = this.#phase * (layer % 2 ? -0.35 : 0.3) + layer * 2.1;
    const wave = this.#calm.matches ? 0 : this.#wave + this.#target.gain * this.#loudness * (0.16 + 0.2 * layer);
    const reach = radius * (1 + 0.075 * layer);
    context.beginPath();
    for (let i = 0; i <= POINTS; i++) {
      const angle = (i / POINTS) * 2 * Math.PI;
      const bend =
        Math.sin(3 * angle + this.#phase * 1.3 + layer * 1.7) * 0.5 +
        Math.sin(2 * angle - this.#phase * 0.9 + layer * 2.9) * 0.4 +
        Math.sin(5 * angle + this.#phase * 0.7 + layer) * 0.18;
      const r = reach * (1 + wave * bend);
      context.lineTo(center + r * Math.cos(angle), center + r * Math.sin(angle));
    }
    const [dx, dy] = [reach * Math.cos(turn), reach * Math.sin(turn)];
    const fill = context.createLinearGradient(center - dx, center - dy, center + dx, center + dy);
    fill.addColorStop(0, css(this.#colors[layer], 1));
    fill.addColorStop(0.5, css(this.#colors[(layer + 1) % LAYERS], 1));
    fill.addColorStop(1, css(this.#colors[(layer + 2) % LAYERS], 1));
    context.globalAlpha = layer === 0 ? 1 : 0.3;
    context.fillStyle = fill;
    context.fill();
    context.globalAlpha = 1;
  }

  #shine(center, radius) {
    const context = this.#context;
    const [x, y] = [center - radius * 0.34, center - radius * 0.42];
    const shine = context.createRadialGradient(x, y, 0, x, y, radius * 1.05);
    shine.addColorStop(0, "rgb(255 255 255 / 0.55)");
    shine.addColorStop(0.5, "rgb(255 255 255 / 0.12)");
    shine.addColorStop(1, "rgb(255 255 255 / 0)");
    context.beginPath();
    context.arc(center, center, radius * 0.94, 0, 2 * Math.PI);
    context.fillStyle = shine;
    context.fill();
  }

  #ring(center, size) {
    if (!this.#target.gain) return;
    const context = this.#context;
    context.beginPath();
    context.arc(center, center, size * (0.4 + 0.05 * this.#ringing), 0, 2 * Math.PI);
    context.lineWidth = size * (0.004 + 0.012 * this.#ringing);
    context.strokeStyle = css(this.#colors[0], 0.28 + 0.5 * this.#ringing);
    context.stroke();
  }
}
