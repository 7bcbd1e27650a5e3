"""A real headless Chromium for tests: a WAV file as its microphone, and what the page plays as samples.

Run inside an event loop with playwright's async API::

    async with chromium(microphone=question_wav) as browser:
        page = await open_page(browser, url, record=True)
        ...
        heard = await recorded(page)  # int16, mono, 48 kHz
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import aioice.ice
import numpy as np
from numpy.typing import NDArray
from playwright.async_api import Browser, Page, async_playwright

EXECUTABLE = "/usr/bin/chromium"
RECORDED_RATE_HZ = 48_000

_FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--disable-background-networking",
    "--allow-loopback-in-peer-connection",
)

# Taps the stream of every <audio> element once it plays. It lives here and not in the product: the page
# never needs to record. The element's own stream is used, as WebAudio gives zeros for one that no element plays.
_RECORDER = """
(() => {
  const processor = `registerProcessor("tap", class extends AudioWorkletProcessor {
    process(inputs) {
      if (inputs[0][0]) this.port.postMessage(inputs[0][0].slice());
      return true;
    }
  });`;
  const chunks = [];
  let context;
  const tapped = new WeakSet();
  async function tap(stream) {
    if (tapped.has(stream)) return;
    tapped.add(stream);
    if (!context) {
      context = new AudioContext({ sampleRate: 48000 });
      await context.audioWorklet.addModule(URL.createObjectURL(new Blob([processor], { type: "text/javascript" })));
    }
    const node = new AudioWorkletNode(context, "tap", { channelCount: 1, channelCountMode: "explicit" });
    node.port.onmessage = ({ data }) => chunks.push(data);
    context.createMediaStreamSource(stream).connect(node).connect(context.destination);
  }
  document.addEventListener("playing", ({ target }) => target.srcObject && tap(target.srcObject), true);
  window.__recorded = () => {
    const pcm = new Int16Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
    let at = 0;
    for (const chunk of chunks) for (const sample of chunk) {
      pcm[at++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32767)));
    }
    const bytes = new Uint8Array(pcm.buffer);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
  };
})();
"""


@contextlib.contextmanager
def loopback_media() -> Iterator[None]:
    """Let aiortc offer 127.0.0.1, so that media flows on a machine (or a namespace) without any other address.

    It also forgets the mDNS client that aioice keeps per process, which belongs to an earlier test's event loop.
    """
    vars(aioice.ice._mdns).clear()
    original = aioice.ice.get_host_addresses
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"] if use_ipv4 else []
    try:
        yield
    finally:
        aioice.ice.get_host_addresses = original


def _microphone_flag(wav: Path, loop_file: bool) -> str:
    if not wav.is_file():
        raise FileNotFoundError(wav)  # Chromium would silently hear silence
    return f"--use-file-for-fake-audio-capture={wav.resolve()}{'' if loop_file else '%noloop'}"


@contextlib.asynccontextmanager
async def chromium(
    *,
    microphone: Path | None = None,
    loop_file: bool = False,
    device: bool = True,
    autoplay: bool = True,
    flags: Sequence[str] = (),
) -> AsyncIterator[Browser]:
    """Start Chromium.

    ``microphone`` is a PCM16 WAV that plays once (``loop_file``: again and again) from the moment the page
    opens the microphone; its first 0.2 s are lost, so lead with silence. Without a file a synthetic beep is
    heard; ``device=False`` leaves the browser without any microphone. ``autoplay=False`` keeps the policy
    that sound needs a gesture. ``flags`` are further command-line flags.
    """
    all_flags = [*_FLAGS, *flags]
    if device:
        all_flags.append("--use-fake-device-for-media-stream")
    if microphone is not None:
        all_flags.append(_microphone_flag(microphone, loop_file))
    policy = "no-user-gesture-required" if autoplay else "document-user-activation-required"
    all_flags.append(f"--autoplay-policy={policy}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=EXECUTABLE, args=all_flags)
        try:
            yield browser
        finally:
            await browser.close()


async def open_page(
    browser: Browser, url: str, *, microphone_allowed: bool = True, record: bool = False, **context: Any
) -> Page:
    """A page in a context (profile) of its own; ``context`` goes to playwright's new_context.

    Errors of the page's scripts are kept in ``page_errors(page)``.
    """
    context.setdefault("locale", "en-US")
    context.setdefault("reduced_motion", "reduce")  # without a GPU the animated picture takes most of a core
    if record:
        context["bypass_csp"] = True  # the recorder's worklet comes from a blob: URL
    profile = await browser.new_context(permissions=["microphone"] if microphone_allowed else [], **context)
    page = await profile.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Security Policy" in message.text else None)
    setattr(page, "parley_errors", errors)  # noqa: B010
    if record:
        await page.add_init_script(_RECORDER)
    await page.goto(url)
    return page


def page_errors(page: Page) -> list[str]:
    """Uncaught exceptions and violations of the content security policy so far."""
    errors: list[str] = getattr(page, "parley_errors")  # noqa: B009
    return errors


async def recorded(page: Page) -> NDArray[np.int16]:
    """What the page has played since it opened: int16 ``[n]``, mono, 48 kHz. Needs ``record=True``."""
    return np.frombuffer(base64.b64decode(await page.evaluate("window.__recorded()")), np.int16)
