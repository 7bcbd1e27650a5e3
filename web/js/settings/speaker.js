// Where sound comes out, in the browsers that let a page choose.

import { preferences } from "../preferences.js";

export const canChoose = "setSinkId" in HTMLMediaElement.prototype;

/** Let `audio` play through the chosen speaker; through the system's own, and false, if that one is gone. */
export async function useSpeaker(audio) {
  if (!canChoose) return true;
  try {
    await audio.setSinkId(preferences.get("speaker"));
    return true;
  } catch {
    await audio.setSinkId("").catch(() => {});
    return false;
  }
}

/** Keep `audio` on the chosen speaker, also when that is unplugged and comes back. */
export function keepOnSpeaker(audio) {
  useSpeaker(audio);
  preferences.addEventListener("change", ({ detail: key }) => key === "speaker" && useSpeaker(audio));
  navigator.mediaDevices?.addEventListener?.("devicechange", () => useSpeaker(audio));
}

/** Play `source` (a URL, or a MediaStream) through the chosen speaker until `over`, or to its end. Throws if the browser refuses. */
export async function play(source, over) {
  const audio = new Audio();
  await useSpeaker(audio);
  if (source instanceof MediaStream) audio.srcObject = source;
  else audio.src = source;
  const ended = over ?? new Promise((resolve, reject) => {
    audio.addEventListener("ended", resolve);
    audio.addEventListener("error", () => reject(new Error("not playable")));
  });
  try {
    await audio.play();
    await ended;
  } finally {
    audio.pause();
    audio.srcObject = null;
  }
}
