"""The page where UDP does not pass: sound over a WebSocket, in and out of a real browser."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from playwright.async_api import Browser, Page, expect

from app.audio import Pcm, resample
from tests.kit.browser import RECORDED_RATE_HZ, open_page, page_errors, recorded
from tests.kit.listening import Ear, word_error_rate
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession
from tests.kit.speech import recording, sounding

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Only relayed candidates, and no relay: what a network that drops UDP comes to.
_UDP_BLOCKED = """
window.peers = 0;
window.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(options) {
    super({ ...options, iceTransportPolicy: "relay" });
    window.peers++;
  }
};
"""


@asynccontextmanager
async def walled(
    browser: Browser, server: PageServer, script: str = _UDP_BLOCKED, **options: Any
) -> AsyncIterator[Page]:
    page = await open_page(browser, "about:blank", **options)
    await page.add_init_script(script)
    await page.goto(server.url)
    page.set_default_timeout(15_000)
    try:
        yield page
        assert page_errors(page) == []
    finally:
        await page.context.close()


async def talk(page: Page, server: PageServer) -> ScriptedSession:
    await page.get_by_role("button", name="Talk", exact=True).click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call", timeout=15_000)
    return await server.session()


async def heard(session: ScriptedSession) -> None:
    async with asyncio.timeout(8):
        while session.frames < 30 or session.loudest < 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def say(session: ScriptedSession, pcm: Pcm) -> None:
    session.playout.begin(1)
    session.playout.write(1, resample(pcm, 16_000, 48_000))
    session.playout.finish(1)


async def test_where_udp_is_blocked_both_sides_are_heard_all_the_same_and_the_next_call_knows(
    browser: Browser, server: PageServer, ear: Ear
) -> None:
    async with walled(browser, server, record=True) as page:
        session = await talk(page, server)
        await expect(page.locator("#way")).to_be_visible()
        await heard(session)
        assert server.host.sessions[0].close_reason == "hung_up", "the try over WebRTC has left nothing"
        say(session, recording("en/quick_brown_fox"))
        await asyncio.sleep(len(recording("en/quick_brown_fox")) / 16_000 + 0.8)
        begin, end = sounding(await recorded(page))
        sound = (await recorded(page))[begin - 4800 : end + 4800]
        said = "The quick brown fox jumps over the lazy dog."
        assert word_error_rate(said, await asyncio.to_thread(ear.hear, sound, RECORDED_RATE_HZ)) <= 0.15
        await page.get_by_role("button", name="End", exact=True).click()
        await asyncio.wait_for(session.wait_closed(), 3)
        assert session.close_reason == "hung_up"
        tried = await page.evaluate("window.peers")
        await page.locator("#talk").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await heard(await server.session())
        assert (tried, await page.evaluate("window.peers")) == (1, 1)


async def test_a_browser_without_webrtc_talks_too(browser: Browser, server: PageServer) -> None:
    async with walled(browser, server, "delete window.RTCPeerConnection;") as page:
        await heard(await talk(page, server))


async def test_a_connection_that_breaks_is_made_again_and_the_session_goes_on(
    browser: Browser, server: PageServer
) -> None:
    async with walled(browser, server, "delete window.RTCPeerConnection;" + _KEPT_SOCKETS) as page:
        session = await talk(page, server)
        await heard(session)
        await page.evaluate("window.sockets.at(-1).close(4999)")
        await expect(page.locator("body")).to_have_attribute("data-phase", "reconnecting")
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        before = session.frames
        async with asyncio.timeout(5):
            while session.frames < before + 20:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert len(server.host.sessions) == 1


_KEPT_SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    window.sockets.push(this);
  }
};
"""


async def test_a_full_server_is_told_over_a_websocket_as_over_webrtc(browser: Browser, server: PageServer) -> None:
    server.host.limit = 0
    async with walled(browser, server, "delete window.RTCPeerConnection;") as page:
        await page.get_by_role("button", name="Talk", exact=True).click()
        await expect(page.locator("[data-code=session_limit]")).to_be_visible()


async def test_where_udp_passes_it_is_webrtc(page: Page, server: PageServer) -> None:
    await heard(await talk(page, server))
    await expect(page.locator("#way")).to_be_hidden()


# The worklets, rendered offline

_CAPTURE = """async ([rate, encoded]) => {
  const bytes = Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
  const sound = new Float32Array(bytes.buffer);
  const context = new OfflineAudioContext(1, sound.length, rate);
  for (const name of ["resampler", "capture"]) await context.audioWorklet.addModule(`js/worklets/${name}.js`);
  const buffer = context.createBuffer(1, sound.length, rate);
  buffer.copyToChannel(sound, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  const node = new AudioWorkletNode(context, "parley-capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
  const pieces = [];
  node.port.onmessage = ({ data }) => pieces.push(...new Int16Array(data));
  source.connect(node);
  source.start();
  await context.startRendering();
  await new Promise((resolve) => setTimeout(resolve, 300));
  return pieces;
}"""


async def captured(page: Page, sound: np.ndarray[Any, Any], rate_hz: int) -> np.ndarray[Any, Any]:
    encoded = base64.b64encode(sound.astype("<f4").tobytes()).decode()
    return np.array(await page.evaluate(_CAPTURE, [rate_hz, encoded]), np.int16)


def tone(hertz: float, rate_hz: int, seconds: float = 1.0) -> np.ndarray[Any, Any]:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate_hz)) / rate_hz)


@pytest.mark.parametrize("rate_hz", [16_000, 44_100, 48_000, 96_000])
async def test_the_microphone_is_brought_to_16_khz_in_pieces_of_20_ms_without_aliases(page: Page, rate_hz: int) -> None:
    kept = await captured(page, tone(1000.0, rate_hz), rate_hz)
    assert len(kept) % 320 == 0
    assert len(kept) >= 15_360
    middle = kept[3200:12_800]
    assert np.abs(np.fft.rfft(middle)).argmax() * 16_000 / len(middle) == pytest.approx(1000.0, abs=2)
    assert np.sqrt(np.mean(middle.astype(float) ** 2)) == pytest.approx(0.5 * 32767 / np.sqrt(2), rel=0.02)
    if rate_hz > 20_000:
        alias = await captured(page, tone(9500.0, rate_hz), rate_hz)
        assert np.abs(alias[3200:12_800]).max() < 10, "below -60 dB"


_PLAYBACK = """async ([rate, schedule, hertz]) => {
  const context = new OfflineAudioContext(1, 2 * rate, rate);
  for (const name of ["resampler", "playback"]) await context.audioWorklet.addModule(`js/worklets/${name}.js`);
  const node = new AudioWorkletNode(context, "parley-playback", { numberOfInputs: 0, outputChannelCount: [1] });
  node.connect(context.destination);
  let sent = 0;
  const piece = () => {
    const pcm = Int16Array.from({ length: 480 }, (_, at) =>
      Math.round(16000 * Math.sin((2 * Math.PI * hertz * (sent * 480 + at)) / 24000)));
    sent++;
    node.port.postMessage(pcm.buffer, [pcm.buffer]);
  };
  for (const [atMs, pieces] of schedule) {
    context.suspend(atMs / 1000).then(async () => {
      for (let count = 0; count < pieces; count++) piece();
      await new Promise((resolve) => setTimeout(resolve, 2));
      context.resume();
    });
  }
  const sound = await context.startRendering();
  const bytes = new Uint8Array(sound.getChannelData(0).buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}"""


async def played(page: Page, schedule: list[tuple[int, int]], rate_hz: int = 48_000) -> np.ndarray[Any, Any]:
    encoded = await page.evaluate(_PLAYBACK, [rate_hz, schedule, 500.0])
    return np.frombuffer(base64.b64decode(encoded), "<f4")


def clicks(sound: np.ndarray[Any, Any], rate_hz: int = 48_000) -> int:
    """Steps that a tone of 500 Hz at this loudness does not make."""
    step = 2 * np.pi * 500 / rate_hz * 0.5
    return int((np.abs(np.diff(sound)) > 1.3 * step).sum())


@pytest.mark.parametrize("rate_hz", [44_100, 48_000])
async def test_an_even_stream_is_played_whole_after_60_ms_and_without_a_click(page: Page, rate_hz: int) -> None:
    sound = await played(page, [(40 * index, 2) for index in range(1, 26)], rate_hz)
    loud = np.flatnonzero(np.abs(sound) > 0.1)
    assert loud[0] / rate_hz == pytest.approx(0.085, abs=0.025)
    assert (loud[-1] - loud[0]) / rate_hz == pytest.approx(1.0, abs=0.03)
    assert clicks(sound, rate_hz) == 0


async def test_a_gap_in_the_stream_fades_and_the_buffer_then_waits_longer(page: Page) -> None:
    steady = [(40 * index, 2) for index in range(1, 13)]
    late = [(780, 15), *((780 + 40 * index, 2) for index in range(1, 15))]
    sound = await played(page, [*steady, *late])
    assert clicks(sound) == 0
    quiet = np.abs(sound[: int(1.3 * 48_000)]) < 0.001
    runs = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(int), [0]])))
    longest = max(runs[1::2][1:] - runs[::2][1:])
    assert longest / 48_000 == pytest.approx(0.24, abs=0.05)
    loud = np.flatnonzero(np.abs(sound) > 0.1)
    assert (loud[-1] - loud[0] - longest) / 48_000 == pytest.approx(12 * 0.04 + (15 + 28) * 0.02, abs=0.04), (
        "nothing is lost"
    )


async def test_what_piles_up_without_end_is_bounded(page: Page) -> None:
    sound = await played(page, [(20, 500)])
    assert np.flatnonzero(np.abs(sound) > 0.1)[-1] / 48_000 < 1.2
