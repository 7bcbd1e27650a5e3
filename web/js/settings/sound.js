// Microphone and speaker: which ones, how loud it is, and whether they work.

import { Levels } from "../levels.js";
import { openMicrophone } from "../microphone.js";
import { preferences } from "../preferences.js";
import { asProblem } from "../problem.js";
import { text } from "../strings.js";
import { button, make, SelectField, SwitchField, words } from "./fields.js";
import { canRecord, chime, record, RECORD_MS } from "./sound-check.js";
import { canChoose, play } from "./speaker.js";

const NO_DEVICE = new Set(["", "default", "communications"]); // Other names of the system's own choice.
const TOLD_MS = 250; // How often the meter's number changes for those who do not see it move.

export class SoundSection {
  fields;
  el;
  #call;
  #devices = [];
  #levels = new Levels();
  #track = null;
  #opening = null;
  #testing = false;

  /** `call`: the session's Microphone. */
  constructor(call) {
    this.#call = call;
    this.microphone = new SelectField("microphone", "settings.microphone", () => this.#names("audioinput", "microphone"));
    this.speaker = new SelectField("speaker", "settings.speaker", () => this.#names("audiooutput", "speaker"));
    this.fields = [
      this.microphone,
      new SwitchField("noiseSuppression", "settings.noiseSuppression", "settings.noiseSuppression.help"),
      new SwitchField("echoCancellation", "settings.echoCancellation", "settings.echoCancellation.help"),
      ...(canChoose ? [this.speaker] : []),
    ];
    this.el = this.#build();
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.#opened && this.#list());
    call.addEventListener("track", () => this.#opened && this.#listen());
    preferences.addEventListener("change", ({ detail: key }) => {
      const heardAnew = ["microphone", "noiseSuppression", "echoCancellation"].includes(key);
      if (heardAnew && this.#opened && !this.#call.track) this.#listen();
    });
  }

  get #opened() {
    return this.#opening !== null;
  }

  /** The dialog is shown. Nothing is asked for: only a microphone that may be heard already is. */
  async open() {
    const opening = (this.#opening = Symbol("opening"));
    this.#levels.wake();
    this.#say(this.speakerSays, "");
    await this.#list();
    if (this.#opening !== opening) return;
    if (this.#allowed) await this.#listen();
    else this.#ask("");
  }

  close() {
    this.#opening = null;
    this.#call.paused = false;
    this.#mute();
  }

  get #allowed() {
    return this.#call.track !== null || this.#devices.some(({ kind, label }) => kind === "audioinput" && label);
  }

  #build() {
    this.meter = make("div", { class: "meter", role: "meter", "data-label": "settings.level", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, make("i"));
    this.test = button("settings.test", () => this.#test());
    this.microphoneSays = make("p", { class: "says", role: "status" });
    this.trial = make("div", { class: "trial" }, this.meter, this.test);
    this.why = make("p", {});
    this.permission = make("div", { class: "permission" }, this.why, button("settings.allow", () => this.#listen()));
    this.speakerSays = make("p", { class: "says", role: "status" });
    const [microphone, noise, echo] = this.fields;
    microphone.el.append(this.permission, this.trial, this.microphoneSays);
    const speaker = canChoose ? this.speaker.el : make("div", { class: "field" }, words("h4", "settings.speaker"), words("p", "settings.noSpeakerChoice", { class: "help" }));
    const tries = make("div", { class: "trial" }, button("settings.chime", () => this.#chime()));
    if (navigator.mediaDevices?.selectAudioOutput) tries.prepend(button("settings.otherSpeaker", () => this.#pickSpeaker()));
    speaker.append(tries, this.speakerSays);
    return make("section", {}, words("h3", "settings.sound"), microphone.el, noise.el, echo.el, speaker);
  }

  /** [deviceId, name] of the devices of a kind. */
  #names(kind, key) {
    const devices = this.#devices.filter((device) => device.kind === kind && device.label && !NO_DEVICE.has(device.deviceId));
    const names = [["", text("settings.systemDefault")], ...devices.map(({ deviceId, label }) => [deviceId, label])];
    const chosen = preferences.get(key);
    if (!names.some(([id]) => id === chosen)) names.push([chosen, text(devices.length ? "settings.notConnected" : "settings.yourChoice")]);
    return names;
  }

  async #list() {
    this.#devices = (await navigator.mediaDevices?.enumerateDevices?.().catch(() => [])) ?? [];
    this.microphone.show();
    if (canChoose) this.speaker.show();
  }

  /** Show how loud the microphone is: the call's, or one opened for this. */
  async #listen() {
    const opening = (this.#opening = Symbol("opening"));
    this.#mute();
    let track;
    try {
      track = this.#call.track ? this.#call.track.clone() : await openMicrophone();
    } catch (error) {
      if (this.#opening === opening) this.#ask(asProblem(error).code);
      return;
    }
    if (this.#opening !== opening) return track.stop();
    track.enabled = true; // The call's may be muted.
    this.#track = track;
    track.addEventListener("ended", () => this.#track === track && this.#listen());
    this.#levels.wake();
    this.#levels.watch("meter", new MediaStream([track]));
    this.permission.hidden = true;
    this.trial.hidden = false;
    this.test.hidden = !canRecord();
    this.#draw(track, 0);
    await this.#list(); // Only now do the devices have names.
  }

  #mute() {
    this.#track?.stop();
    this.#track = null;
    this.#levels.forget();
  }

  /** Without a microphone: why, and a button that asks for it. `code` is a Problem's, or empty before the first try. */
  #ask(code) {
    this.why.dataset.text = code ? `${code}.text` : "settings.permission";
    this.why.textContent = text(this.why.dataset.text);
    this.permission.querySelector("button").hidden = code === "insecure_context" || code === "unsupported";
    this.permission.hidden = false;
    this.trial.hidden = true;
  }

  #draw(track, toldAt) {
    if (this.#track !== track) return;
    const level = this.#levels.read("meter");
    this.meter.style.setProperty("--level", level.toFixed(3));
    const now = performance.now();
    const tell = now - toldAt > TOLD_MS;
    if (tell) this.meter.setAttribute("aria-valuenow", Math.round(level * 100));
    requestAnimationFrame(() => this.#draw(track, tell ? now : toldAt));
  }

  /** Three seconds recorded, and played back. */
  async #test() {
    const track = this.#track;
    if (this.#testing || !track) return;
    this.#testing = true;
    this.test.setAttribute("aria-disabled", "true"); // Disabled, it would lose the focus.
    this.#call.paused = true;
    this.#say(this.microphoneSays, "settings.speakNow", { seconds: RECORD_MS / 1000 });
    this.trial.dataset.recording = "";
    try {
      const { url, verdict } = await record(track, () => this.#levels.read("meter"));
      delete this.trial.dataset.recording;
      if (this.#opened && verdict !== "none") {
        this.#say(this.microphoneSays, "settings.playingBack");
        await play(url);
      }
      URL.revokeObjectURL(url);
      this.#say(this.microphoneSays, `settings.heard.${verdict}`);
    } catch (error) {
      console.warn(error);
      this.#say(this.microphoneSays, "settings.cannotPlay");
    }
    delete this.trial.dataset.recording;
    this.#call.paused = false;
    this.test.removeAttribute("aria-disabled");
    this.#testing = false;
  }

  async #chime() {
    this.#say(this.speakerSays, "settings.chiming");
    const done = await chime().then(() => "settings.chimed", () => "settings.cannotPlay");
    this.#say(this.speakerSays, done);
  }

  /** Firefox shows its own list, and names a speaker only after that. */
  async #pickSpeaker() {
    const picked = await navigator.mediaDevices.selectAudioOutput().catch(() => null);
    if (!picked) return;
    this.speaker.choose(picked.deviceId);
    await this.#list();
  }

  #say(el, key, values) {
    if (key) el.dataset.text = key;
    else delete el.dataset.text;
    el.textContent = text(key, values);
  }
}
