// What this tab keeps of its call, so that a refresh or a lost connection need not end it.

const STORED = "parley.call";
const LEAST_S = 30; // A server that was restarted needs as long before anybody can come back.

/** In sessionStorage: it belongs to this tab, and goes with it. */
export class Keepsake {
  #kept = null;

  constructor() {
    this.#kept = read();
  }

  /** {token, keepS, microphone, heard, leftAt, items}, or null where there is nothing to come back to. */
  get call() {
    return this.#kept;
  }

  get untilMs() {
    return this.#kept.leftAt + Math.max(this.#kept.keepS, LEAST_S) * 1000;
  }

  /** Change what is kept; begins anew after `forget`. */
  keep(values) {
    this.#kept = { ...this.#kept, ...values, leftAt: Date.now() };
    this.#write(JSON.stringify(this.#kept));
  }

  /** Kept in memory alone: a refresh of this tab must not take the call away from another one. */
  hide() {
    this.#write(null);
  }

  forget() {
    this.#kept = null;
    this.#write(null);
  }

  #write(value) {
    try {
      if (value === null) sessionStorage.removeItem(STORED);
      else sessionStorage.setItem(STORED, value);
    } catch {
      // Storage is forbidden or full: then a refresh ends the call.
    }
  }
}

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORED));
    return typeof kept?.token === "string" && kept.leftAt + Math.max(kept.keepS, LEAST_S) * 1000 > Date.now() ? kept : null;
  } catch {
    return null;
  }
}
