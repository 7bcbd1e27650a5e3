// The keys of the page: space, escape and the question mark.

const FIELDS = "input, textarea, select, button, summary, a[href], [contenteditable]";

/** Whether the key belongs to what has the focus: a field that is typed in, a button that it would press. */
const taken = ({ target }) => target instanceof Element && target !== document.body && target.closest(FIELDS) !== null;

const typing = ({ target }) => target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;

/**
 * `act`: press(), release() and toggle() for turns by hand, mute(), stop(), help(). `mode()` is "open", "push" or "hold",
 * and null where space means nothing.
 */
export function listenToKeys(act, mode) {
  let held = false;
  const release = () => {
    if (held) act.release();
    held = false;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return act.stop();
    if (event.key === "?" && !typing(event)) return act.help();
    if (event.key !== " " || taken(event)) return undefined;
    const now = mode();
    if (now === null) return undefined;
    event.preventDefault(); // It would scroll.
    if (event.repeat) return undefined;
    if (now === "open") return act.mute();
    if (now === "hold") return act.toggle();
    held = true;
    return act.press();
  });
  document.addEventListener("keyup", (event) => event.key === " " && release());
  addEventListener("blur", release); // The key's way up would go unseen.
}
