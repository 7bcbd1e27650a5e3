// What the person prefers, kept in this browser. Nothing stored is trusted: what does not fit counts as not set.

const STORED = "parley.preferences";
const SPEEDS = [0.5, 2]; // As the server takes them (docs/events.md).
const MAX_INSTRUCTIONS_CHARS = 8000;
const MAX_NAME_CHARS = 512; // Device ids and voices; a bound only so that nothing absurd is kept.

const name = (value) => typeof value === "string" && value.length <= MAX_NAME_CHARS;
const flag = (value) => typeof value === "boolean";
const oneOf = (...values) => (value) => values.includes(value);

const KNOWN = {
  microphone: ["", name], // A deviceId; empty: the system's default.
  speaker: ["", name],
  voice: ["", name], // Empty: the server's.
  speed: [1, (value) => typeof value === "number" && value >= SPEEDS[0] && value <= SPEEDS[1]],
  spokenLanguage: ["", (value) => typeof value === "string" && /^(auto|[a-z]{2,3})?$/.test(value)],
  mode: ["open", oneOf("open", "push", "hold")], // push: held while speaking; hold: pressed to begin and to send.
  captions: ["medium", oneOf("small", "medium", "large", "largest")],
  instructions: ["", (value) => typeof value === "string" && codePoints(value) <= MAX_INSTRUCTIONS_CHARS],
  noiseSuppression: [true, flag],
  echoCancellation: [true, flag],
  answers: ["voice", oneOf("voice", "silent")], // To what is typed.
  waterfall: [false, flag],
  record: [false, flag],
};

const codePoints = (text) => Array.from(text).length; // The server counts like this.

/** Event: "change" (detail: the key), after whatever changes it. */
class Preferences extends EventTarget {
  #values = {}; // Only what was chosen; the rest are defaults.
  #kept = true;

  constructor() {
    super();
    this.#values = this.#read();
  }

  get(key) {
    return this.#values[key] ?? KNOWN[key][0];
  }

  /** Whether it was chosen; the server's own settings hold for what was not. */
  isSet(key) {
    return key in this.#values;
  }

  /** Whether the browser keeps what is chosen beyond this visit. */
  get kept() {
    return this.#kept;
  }

  /** Throws RangeError for a value that the key cannot have. */
  set(key, value) {
    if (!KNOWN[key][1](value)) throw new RangeError(`${key}: ${String(value).slice(0, 80)}`);
    if (this.isSet(key) && this.get(key) === value) return;
    // Another tab may have chosen other things meanwhile: only this one is changed.
    this.#write({ ...(this.#kept ? this.#read() : this.#values), [key]: value });
    this.#values[key] = value;
    this.dispatchEvent(new CustomEvent("change", { detail: key }));
  }

  /** What the server, or the page by itself, does holds again. */
  unset(key) {
    if (!this.isSet(key)) return;
    const { [key]: _, ...rest } = this.#kept ? this.#read() : this.#values;
    this.#write(rest);
    delete this.#values[key];
    this.dispatchEvent(new CustomEvent("change", { detail: key }));
  }

  /** Unset all; returns what was set, by key. */
  reset() {
    const before = { ...this.#values };
    for (const key of Object.keys(before)) this.unset(key);
    return before;
  }

  #read() {
    let stored = null;
    try {
      stored = JSON.parse(localStorage.getItem(STORED));
    } catch (error) {
      this.#kept = error instanceof SyntaxError; // Storage may be forbidden: then all lasts for this visit.
    }
    if (stored === null || typeof stored !== "object") return {};
    return Object.fromEntries(Object.entries(stored).filter(([key, value]) => Object.hasOwn(KNOWN, key) && KNOWN[key][1](value)));
  }

  #write(values) {
    try {
      localStorage.setItem(STORED, JSON.stringify(values));
      this.#kept = true;
    } catch {
      this.#kept = false;
    }
  }
}

export const preferences = new Preferences();

// A voice that another server has would have this one refuse the call.
const offered = (value, values) => ((values ?? [value]).includes(value) ? value : "");
const voice = (config) => offered(preferences.get("voice"), config.voices);
const spokenLanguage = (config) => offered(preferences.get("spokenLanguage"), config.languages);

// How each preference reads in the server's session object; with what undoes it where it is not set.
const SESSION = {
  voice: (config) => ({ audio: { output: { voice: voice(config) } } }),
  speed: () => ({ audio: { output: { speed: preferences.isSet("speed") ? preferences.get("speed") : null } } }),
  spokenLanguage: (config) => ({ audio: { input: { transcription: { language: spokenLanguage(config) } } } }),
  mode: () => ({ audio: { input: { turn_detection: preferences.get("mode") === "open" ? { type: "semantic_vad" } : null } } }),
  instructions: (config) => (config.client_instructions ? { instructions: preferences.get("instructions").trim() || null } : {}),
};

const isObject = (value) => typeof value === "object" && value !== null;

function merge(one, other) {
  const both = { ...one };
  for (const [key, value] of Object.entries(other)) {
    both[key] = isObject(value) && isObject(one[key]) ? merge(one[key], value) : value;
  }
  return both;
}

/** The session object that carries just `key` (for session.update); null if the server need not know of it. */
export function sessionChange(key, config = {}) {
  const change = SESSION[key]?.(config) ?? {};
  return Object.keys(change).length ? { type: "realtime", ...change } : null;
}

/**
 * The session object for a new call (docs/events.md): what was chosen and the server allows.
 * `config` is the server's /config.json.
 */
export function sessionOptions(config = {}) {
  const asked = {
    voice: voice(config) !== "",
    speed: preferences.isSet("speed"),
    spokenLanguage: spokenLanguage(config) !== "",
    mode: preferences.get("mode") !== "open",
    instructions: preferences.get("instructions").trim() !== "",
  };
  return Object.keys(SESSION)
    .filter((key) => asked[key])
    .reduce((options, key) => merge(options, sessionChange(key, config) ?? {}), { type: "realtime" });
}
