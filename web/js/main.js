// Joins the parts: session, transcript, orb, problem card and controls.

import { mayGoOnAlone } from "./autoplay.js";
import { Composer } from "./composer.js";
import { Controls } from "./controls.js";
import { Conversation } from "./conversation.js";
import { keepFocus } from "./focus.js";
import { Keepsake } from "./keepsake.js";
import { listenToKeys } from "./keyboard.js";
import { Latency } from "./latency/latency.js";
import { Levels } from "./levels.js";
import { Orb } from "./orb.js";
import { preferences } from "./preferences.js";
import { Problem } from "./problem.js";
import { ProblemCard } from "./problem-card.js";
import { Recording } from "./recording.js";
import { adoptToken, forAnotherTab } from "./server.js";
import { Session } from "./session.js";
import { SettingsDialog } from "./settings/dialog.js";
import { LiveSettings } from "./settings/live.js";
import { choose, fill, language, text } from "./strings.js";
import { copy, Tools } from "./tools.js";
import { footParts, Transcript } from "./transcript.js";
import { keepAwake } from "./wake-lock.js";

const at = (id) => document.getElementById(id);
const hear = at("hear");

adoptToken();
// The address that the server printed, opened in this very tab: nothing is loaded again.
addEventListener("hashchange", () => {
  if (adoptToken() && problems.code === "wrong_token") again();
});

const keepsake = new Keepsake();
const levels = new Levels();
const session = new Session(at("voice"), levels, keepsake);
const transcript = new Transcript(at("transcript"), at("scroller"), copy);
const conversation = new Conversation({
  changed: (item) => {
    at("empty").hidden = true;
    document.body.dataset.said = "";
    transcript.show(item);
  },
  removed: (item) => transcript.remove(item),
});
const latency = new Latency(session, at("figures"));
footParts.push((item) => latency.part(item));
const recording = new Recording(session);
const tools = new Tools(
  () => conversation.items.values(),
  () => ({ model: session.config.models?.llm }),
  recording,
);
const orb = new Orb(at("orb"), (side) => levels.read(side));

const NO_MICROPHONE = new Set(["microphone_denied", "microphone_missing", "microphone_busy", "microphone_lost"]);

let withMicrophone = true; // How the last call was begun: "Try again" begins another one like it.

function begin({ microphone }) {
  if (session.active) return;
  withMicrophone = microphone;
  problems.hide();
  hear.hidden = true;
  conversation.finish(); // Of a call that was left and is not gone on with.
  conversation.begin();
  session.start({ microphone });
}

function goOn() {
  problems.hide();
  hear.hidden = true;
  session.goOn();
}

const again = () => begin({ microphone: withMicrophone });

const ways = {
  // A microphone that could not be had again may be all that a call lacks.
  retry: () => {
    if (!session.active) again();
    else if (!session.hasMicrophone) session.toggleMicrophone();
  },
  reconnect: again,
  wait: ({ retryAfterS }) => session.waitForLine({ microphone: withMicrophone, retryAfterS }),
  microphone: () => session.toggleMicrophone(),
  type: () => composer.focus(),
  reload: () => location.reload(),
  settings: () => at("open-settings").click(),
  check: () => open(forAnotherTab("check.html"), "_blank", "noopener"),
  dismiss: () => {
    if (session.phase === "full") session.dismiss();
    at("talk").focus();
  },
};
const problems = new ProblemCard(at("problem"), ways, at("talk"));

const controls = new Controls(session, orb, {
  talk: () => {
    if (session.active) session.end();
    else if (session.phase === "left" || session.phase === "elsewhere") goOn();
    else begin({ microphone: true });
  },
  mute: () => session.toggleMicrophone(),
  stop: () => session.stopReply(),
  anew: () => begin({ microphone: true }),
  press: () => session.byHand.press(),
  release: () => session.byHand.release(),
  toggle: () => session.byHand.toggle(),
});

const composer = new Composer(at("composer"), (words) => {
  if (!session.active && session.phase === "left") goOn();
  else if (!session.active) begin({ microphone: false });
  conversation.typed(words);
  session.say(words);
});

const keys = at("keys");

function showKeys() {
  at("keys-space").textContent = text(`keys.space.${preferences.get("mode")}`);
  keys.showModal();
}

listenToKeys(
  {
    press: () => session.byHand.press(),
    release: () => session.byHand.release(),
    toggle: () => session.byHand.toggle(),
    mute: () => session.toggleMicrophone(),
    stop: () => session.stopReply(),
    help: showKeys,
  },
  () => (session.phase === "call" ? preferences.get("mode") : null),
);
at("help").addEventListener("click", showKeys);

function receive(event) {
  conversation.receive(event);
  if (event.type === "parley.history") conversation.unsent().forEach((words) => session.say(words));
  if (event.type === "error" && event.error?.event_id !== "recording" && !live.owns(event)) problems.show(new Problem("session_trouble"));
  if (event.type === "response.created" && problems.code === "session_trouble") problems.hide();
  if (event.type === "input_audio_buffer.committed" && event.item_id === null) controls.nothingHeard();
  // What is answered silently would otherwise reach no one who does not see.
  if (event.type === "response.output_text.done") controls.announce(event.text ?? "");
}

const stayAwake = keepAwake(() => session.phase === "call" || session.phase === "reconnecting");

let lastPhase = session.phase;
session.addEventListener("change", () => {
  const { phase } = session;
  if (phase !== lastPhase) phaseChanged(lastPhase, phase);
  lastPhase = phase;
  stayAwake();
  if (session.hasMicrophone && NO_MICROPHONE.has(problems.code)) problems.hide();
  controls.draw();
  tools.draw();
});

function phaseChanged(before, now) {
  const over = now === "ended" || now === "idle" || now === "elsewhere" || now === "full";
  if (over && (before === "call" || before === "reconnecting")) conversation.finish();
  if (!session.active) hear.hidden = true;
  if (now === "call" && ["session_limit", "too_busy", "connection_lost"].includes(problems.code)) problems.hide();
  // With turns by hand the focus goes to the button that matters; on the other one, space would end the call.
  if (now === "call" && session.voiceIn.byHand && document.activeElement === at("talk")) queueMicrotask(() => at("press").focus());
}

session.microphone.addEventListener("track", () => {
  if (problems.code === "microphone_replaced" && session.microphone.chosen) problems.hide();
});
session.addEventListener("message", ({ detail }) => receive(detail));
session.addEventListener("problem", ({ detail }) => problems.show(detail));
session.addEventListener("anew", () => {
  conversation.finish();
  conversation.begin("newAfterLoss");
  conversation.unsent().forEach((words) => session.say(words));
});
session.addEventListener("dropped", () => conversation.drop());
session.addEventListener("blocked", () => {
  if (hear.hidden) controls.announce(text("tapToHear"));
  hear.hidden = false;
});
recording.addEventListener("problem", ({ detail }) => problems.show(detail));
let recorded = false;
recording.addEventListener("change", () => {
  if (recording.on !== recorded) controls.announce(text(recording.on ? "recordingNow" : "recordingOver"));
  recorded = recording.on;
});
hear.addEventListener("click", () => {
  keepFocus(() => (hear.hidden = true), at("talk"));
  session.hear();
});

preferences.addEventListener("change", ({ detail: key }) => {
  if (key === "mode") controls.draw();
  if (key === "record" && recording.on !== preferences.get("record")) recording.toggle();
});

const live = new LiveSettings(session, at("voice"));
const settings = new SettingsDialog(at("settings"), { session, live, onLanguage: speak });
at("open-settings").addEventListener("click", () => settings.open());

const picker = at("language");
picker.addEventListener("change", () => speak(picker.value));

function speak(tag) {
  choose(tag);
  picker.value = language();
  fill();
  settings.refresh();
  transcript.refresh();
  latency.refresh();
  problems.refresh();
  composer.draw();
  tools.draw();
  controls.draw();
}

for (const type of ["click", "auxclick"]) {
  document.addEventListener(type, ({ target }) => {
    const link = target.closest?.('a[href^="check.html"]');
    if (link) link.href = forAnotherTab("check.html");
  });
}

addEventListener("pagehide", () => session.leave(conversation.snapshot()));
addEventListener("pageshow", ({ persisted }) => persisted && goOnAlone()); // Back from the browser's page cache.

async function goOnAlone() {
  if (session.phase === "left" && (await mayGoOnAlone(keepsake.call))) goOn();
}

/** A copy of a tab has its call in mind too, and must not take it away unasked. */
const cameBack = () => performance.getEntriesByType("navigation")[0]?.type !== "navigate";

picker.value = language();
fill();
conversation.restore(keepsake.call?.items);
controls.draw();
if (cameBack()) goOnAlone();
