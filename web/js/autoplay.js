// Whether a call may go on by itself after a refresh, or needs a click first.

const LOOK_MS = 400; // An audio context that may run does so within a few milliseconds.

/** Whether the browser would play sound without a click. */
async function soundAllowed() {
  if (navigator.getAutoplayPolicy) return navigator.getAutoplayPolicy("mediaelement") === "allowed";
  if (!window.AudioContext) return false;
  const context = new AudioContext();
  if (context.state !== "running") {
    const changed = new Promise((resolve) => context.addEventListener("statechange", resolve, { once: true }));
    await Promise.race([changed, new Promise((resolve) => setTimeout(resolve, LOOK_MS))]);
  }
  const allowed = context.state === "running";
  context.close();
  return allowed;
}

async function microphoneAllowed() {
  try {
    return (await navigator.permissions.query({ name: "microphone" })).state === "granted";
  } catch {
    return false; // Not every browser tells.
  }
}

/** Whether a call (with a microphone or without) can be taken up without asking anybody. */
export async function mayGoOnAlone({ microphone }) {
  return (!microphone || (await microphoneAllowed())) && (await soundAllowed());
}
