// Waiting for better times: between two tries to come back, and for a free line.

const FIRST_MS = 500;
const LONGEST_MS = 4000;

export const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** 0.5 s, doubling up to 4 s. */
export function* delays() {
  for (let ms = FIRST_MS; ; ms = Math.min(2 * ms, LONGEST_MS)) yield ms;
}

/** Resolves after `ms`, or at once when the network or the person comes back. */
export function pauseUnlessBack(ms) {
  return new Promise((resolve) => {
    const done = new AbortController();
    const end = () => {
      done.abort();
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end, { signal: done.signal });
    const shown = () => document.visibilityState === "visible" && end();
    document.addEventListener("visibilitychange", shown, { signal: done.signal });
  });
}
