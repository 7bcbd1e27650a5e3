// The checks in the order in which they run and are shown. A check is `async (world, prompt) => result`:
// `world` carries what earlier checks learnt, `prompt` asks the person something in the row.
//
// A result: { status: "ok" | "note" | "fail" | "skip", code, values?, details?, lines? }. The sentence is
// `check.<id>.<code>`, the remedy `check.<id>.<code>.fix`; `details` are names and values for those who want them.

import { browser, clock, secure } from "./browser.js";
import { ice } from "./ice.js";
import { level, microphone } from "./microphone.js";
import { webrtc } from "./peer.js";
import { ready, server } from "./server.js";
import { socket } from "./socket.js";
import { playback, speaker } from "./speaker.js";

export const GROUPS = [
  {
    id: "browser",
    checks: [
      { id: "secure", check: secure },
      { id: "browser", check: browser },
      { id: "clock", check: clock },
    ],
  },
  {
    id: "server",
    checks: [
      { id: "server", check: server },
      { id: "ready", check: ready },
      { id: "webrtc", check: webrtc },
      { id: "ice", check: ice },
      { id: "socket", check: socket },
    ],
  },
  {
    id: "sound",
    checks: [
      { id: "microphone", check: microphone },
      { id: "level", check: level },
      { id: "playback", check: playback },
      { id: "speaker", check: speaker },
    ],
  },
];

const PERSONAL = new Set(["microphone", "level", "playback", "speaker"]);

/** Whether a check asks for the microphone or makes a sound. */
export const isPersonal = (id) => PERSONAL.has(id);
