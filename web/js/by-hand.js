// Turns by hand: the person's hand tells where they begin and end.

const RELEASE_MS = 150; // The last sound is still on its way when the finger is up.

export class ByHand {
  #session;
  #release = null;

  constructor(session) {
    this.#session = session;
  }

  /**
   * The person begins to speak; over a reply, that stops it, and a turn whose last sound the server waits for goes on.
   * Without a microphone it asks for one.
   */
  press() {
    const { phase, state, voiceIn, hasMicrophone } = this.#session;
    if (phase !== "call") return;
    if (!hasMicrophone) return void this.#session.toggleMicrophone();
    if (state !== "listening") this.#session.stopReply();
    this.forget();
    voiceIn.muted = false;
    voiceIn.pressed = true;
  }

  /** The person has spoken: the turn is over. */
  release() {
    if (!this.#session.voiceIn.pressed || this.#release !== null) return;
    this.#release = setTimeout(() => {
      this.#release = null;
      this.#session.voiceIn.pressed = false;
      this.#session.send({ type: "input_audio_buffer.commit" });
    }, RELEASE_MS);
  }

  toggle() {
    if (this.#session.voiceIn.pressed) this.release();
    else this.press();
  }

  /** What was released a moment ago is not sent: the turn goes on, or the call is over. */
  forget() {
    clearTimeout(this.#release);
    this.#release = null;
  }
}
