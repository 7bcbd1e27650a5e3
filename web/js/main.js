// Joins the parts: session, transcript, orb, problem card and controls.

import { Conversation } from "./conversation.js";
import { Levels } from "./levels.js";
import { Orb } from "./orb.js";
import { Problem } from "./problem.js";
import { ProblemCard } from "./problem-card.js";
import { adoptToken } from "./server.js";
import { Session } from "./session.js";
import { choose, fill, language, text } from "./strings.js";
import { Transcript } from "./transcript.js";

const at = (id) => document.getElementById(id);
const [talk, talkLabel, mute, stop, hear] = ["talk", "talk-label", "mute", "stop", "hear"].map(at);
const [stateLine, hintLine, message, empty] = ["state", "hint", "message", "empty"].map(at);

const keyboard = matchMedia("(hover: hover) and (pointer: fine)"); // Phones have no Esc to press.

adoptToken();

const levels = new Levels();
const session = new Session(at("voice"), levels);
const transcript = new Transcript(at("transcript"), at("scroller"));
const conversation = new Conversation({
  changed: (item) => {
    empty.hidden = true;
    document.body.dataset.said = "";
    transcript.show(item);
  },
  removed: (item) => transcript.remove(item),
});
const orb = new Orb(at("orb"), (state) => levels.read(state === "speaking" ? "voice" : "microphone"));

let withMicrophone = true; // How the last call was begun: "Try again" begins another one like it.

function begin({ microphone }) {
  if (session.active) return;
  withMicrophone = microphone;
  problems.hide();
  hear.hidden = true;
  conversation.begin();
  session.start({ microphone });
}

const problems = new ProblemCard(at("problem"), {
  retry: () => begin({ microphone: withMicrophone }),
  reconnect: () => begin({ microphone: withMicrophone }),
  microphone: () => session.toggleMicrophone(),
  type: () => message.focus(),
  reload: () => location.reload(),
  dismiss: () => talk.focus(),
});

/** What the person sees: the phase outside a call, the server's state inside, and whether they can be heard. */
function shownState() {
  if (session.phase !== "call") return session.phase;
  if (session.state !== "listening") return session.state;
  if (!session.hasMicrophone) return "typing";
  return session.muted ? "muted" : "listening";
}

function draw() {
  const shown = shownState();
  document.body.dataset.phase = session.phase;
  document.body.dataset.state = shown;
  orb.state = shown === "typing" ? "listening" : shown;
  if (stateLine.textContent !== text(`state.${shown}`)) stateLine.textContent = text(`state.${shown}`);
  hintLine.textContent = (keyboard.matches && text(`hint.${shown}.keys`)) || text(`hint.${shown}`);
  drawControls(shown);
}

function drawControls(shown) {
  const inCall = session.phase === "call";
  const label = inCall ? "end" : session.active ? "cancel" : session.phase === "ended" ? "talkAgain" : "talk";
  talkLabel.textContent = text(label);
  setIcon(talk, session.active ? "i-end" : "i-mic");
  mute.hidden = !inCall;
  const listening = session.hasMicrophone && !session.muted;
  mute.setAttribute("aria-pressed", String(!listening));
  const muteLabel = text(listening ? "mute" : session.hasMicrophone ? "unmute" : "useMicrophone");
  mute.setAttribute("aria-label", muteLabel);
  mute.title = muteLabel;
  setIcon(mute, listening ? "i-mic" : "i-mic-off");
  stop.hidden = !inCall;
  stop.disabled = shown !== "speaking" && shown !== "thinking";
}

function setIcon(button, name) {
  button.querySelector("use").setAttribute("href", `#${name}`);
}

function receive(event) {
  conversation.receive(event);
  if (event.type === "error") problems.show(new Problem("session_trouble"));
  if (event.type === "response.created" && at("problem").dataset.code === "session_trouble") problems.hide();
}

let lastPhase = "idle";
session.addEventListener("change", () => {
  const ended = lastPhase === "call" && session.phase !== "call";
  lastPhase = session.phase;
  if (ended) conversation.finish();
  if (!session.active) hear.hidden = true;
  draw();
});
session.addEventListener("message", ({ detail }) => receive(detail));
session.addEventListener("problem", ({ detail }) => problems.show(detail));
session.addEventListener("blocked", () => {
  hear.hidden = false;
});

talk.addEventListener("click", () => (session.active ? session.end() : begin({ microphone: true })));
mute.addEventListener("click", () => session.toggleMicrophone());
stop.addEventListener("click", () => session.stopReply());
hear.addEventListener("click", () => {
  hear.hidden = true;
  session.hear();
});
at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = message.value.trim();
  if (!words) return;
  message.value = "";
  if (!session.active) begin({ microphone: false });
  conversation.typed(words);
  session.say(words);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") session.stopReply();
});
window.addEventListener("pagehide", () => session.end());

const picker = at("language");
picker.value = language();
picker.addEventListener("change", () => {
  choose(picker.value);
  fill();
  transcript.refresh();
  problems.refresh();
  draw();
});

fill();
draw();
