// Keeps a phone's screen on during a call: with the screen, many take the microphone away.

/** `wanted()` says whether a call is on; call the function that is returned whenever that may have changed. */
export function keepAwake(wanted) {
  let lock = null;
  let asking = false;
  async function update() {
    if (!wanted()) {
      lock?.release().catch(() => {});
      lock = null;
    } else if (lock === null && !asking && document.visibilityState === "visible") {
      asking = true;
      lock = (await navigator.wakeLock?.request("screen").catch(() => null)) ?? null; // An empty battery may refuse it.
      asking = false;
      lock?.addEventListener("release", () => (lock = null)); // As whenever the page is hidden.
      if (!wanted()) update();
    }
  }
  document.addEventListener("visibilitychange", update);
  return update;
}
