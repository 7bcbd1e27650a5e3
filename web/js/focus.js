// Keyboards and screen readers stay somewhere when what they were on goes away.

/** Do `change`; if it hides or removes what has the keyboard's focus, `next` gets it. */
export function keepFocus(change, next) {
  const focused = document.activeElement;
  // After a click with the mouse nothing is needed, and the space key must not press what was never aimed at.
  const byKeys = focused !== null && focused !== document.body && focused.matches(":focus-visible");
  change();
  if (byKeys && focused.getClientRects().length === 0) next.focus();
}
