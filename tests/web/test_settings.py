"""The settings dialog: what is chosen is kept, takes effect at once, and what cannot be had is said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.kit.browser import open_page, page_errors
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

OFFERED = {
    "voices": ["test", "other", "refused"],
    "default_voice": "test",
    "language": "en",
    "languages": ["en", "de", "auto"],
    "speeds": [0.5, 2.0],
    "client_instructions": True,
    "instructions": "You are kind.",
    "recording": True,
}

# What the page sends sound with, and what it gave a speaker to.
WATCH = """
window.senders = [];
const add = RTCPeerConnection.prototype.addTransceiver;
RTCPeerConnection.prototype.addTransceiver = function (...given) {
  const transceiver = add.apply(this, given);
  window.senders.push(transceiver.sender);
  return transceiver;
};
const open = navigator.mediaDevices?.getUserMedia;
if (open) navigator.mediaDevices.getUserMedia = async function (wish) {
  if (window.unplugged && wish.audio.deviceId) throw new DOMException("", "OverconstrainedError");
  return open.call(this, wish);
};
window.played = [];
document.addEventListener("playing", (event) => window.played.push(event.target), true);
const play = HTMLMediaElement.prototype.play;
HTMLMediaElement.prototype.play = function () {
  window.played.push({ sink: this.sinkId, source: this.srcObject ? "stream" : this.src });
  return play.call(this);
};
"""

FORBIDDEN = (
    'Object.defineProperty(window, "localStorage", { get() { throw new DOMException("no", "SecurityError"); } });'
)


async def offer_more(route: Route) -> None:
    response = await route.fetch()
    await route.fulfill(response=response, json=await response.json() | OFFERED)


@contextlib.asynccontextmanager
async def opened(browser: Browser, server: PageServer, script: str = "", **context: Any) -> AsyncIterator[Page]:
    page = await open_page(browser, "about:blank", **context)
    page.set_default_timeout(6000)
    await page.add_init_script(WATCH + script)
    await page.route("**/config.json", offer_more)
    await page.goto(server.url)
    yield page
    errors = page_errors(page)
    await page.context.close()
    assert errors == []


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: PageServer) -> AsyncIterator[Page]:
    async with opened(browser, server) as page:
        yield page


async def settings(page: Page, button: str = "Settings") -> Locator:
    await page.get_by_role("button", name=button, exact=True).click()
    dialog = page.locator("#settings")
    await expect(dialog).to_be_visible()
    return dialog


async def call(page: Page, server: PageServer) -> ScriptedSession:
    await page.locator("#talk").click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    return await server.session()


async def until(session: ScriptedSession, count: int) -> list[dict[str, Any]]:
    """The session objects of the first ``count`` updates."""
    async with asyncio.timeout(5):
        while True:
            updates = [event["session"] for event in session.received if event["type"] == "session.update"]
            if len(updates) >= count:
                return updates
            await asyncio.sleep(0.01)


async def becomes_true(page: Page, expression: str, arg: object = None) -> None:
    """Asked from here: the page's policy lets no function be polled inside it."""
    async with asyncio.timeout(6):
        while not await page.evaluate(expression, arg):  # noqa: ASYNC110 - a browser cannot signal
            await asyncio.sleep(0.03)


async def slide(slider: Locator, value: str) -> None:
    await slider.fill(value)
    await slider.dispatch_event("change")


async def test_what_is_chosen_outlives_a_reload_and_begins_the_next_call(page: Page, server: PageServer) -> None:
    dialog = await settings(page)
    await dialog.get_by_label("Voice", exact=True).select_option("other")
    await slide(dialog.get_by_label("Speed"), "1.5")
    await dialog.get_by_label("You speak").select_option("de")
    await dialog.get_by_label("Push to talk").check()
    await dialog.get_by_label("Largest").check(force=True)
    await dialog.get_by_label("Suppress noise").uncheck()
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-captions", "largest")
    dialog = await settings(page)
    await expect(dialog.get_by_label("Voice", exact=True)).to_have_value("other")
    await expect(dialog.get_by_label("Speed")).to_have_value("1.5")
    await expect(dialog.locator("output")).to_have_text("1.50×")
    await expect(dialog.get_by_label("You speak")).to_have_value("de")
    await expect(dialog.get_by_label("Push to talk")).to_be_checked()
    await expect(dialog.get_by_label("Suppress noise")).not_to_be_checked()
    await dialog.get_by_role("button", name="Done").click()
    async with page.expect_request("**/offer") as offer:
        session = await call(page, server)
    assert (await offer.value).post_data_json["session"] == {
        "type": "realtime",
        "audio": {
            "output": {"voice": "other", "speed": 1.5},
            "input": {"transcription": {"language": "de"}, "turn_detection": None},
        },
    }
    assert (session.options.voice, session.options.turn_detection) == ("other", "manual")
    track = await page.evaluate("window.senders.at(-1).track.getSettings()")
    assert (track["noiseSuppression"], track["echoCancellation"]) == (False, True)
    session.reply("r1", "Hello.", heard=6)
    size = "(el) => parseFloat(getComputedStyle(el).fontSize)"
    said = page.locator(".parley .said")
    assert await said.evaluate(size) == pytest.approx(1.6 * await page.locator(".parley").evaluate(size))


async def test_a_running_call_follows_at_once(page: Page, server: PageServer) -> None:
    session = await call(page, server)
    session.settings = session.settings.model_copy(
        update={"server": session.settings.server.model_copy(update={"client_instructions": True})}
    )
    dialog = await settings(page)
    await dialog.get_by_label("Voice", exact=True).select_option("other")
    await slide(dialog.get_by_label("Speed"), "0.8")
    await dialog.get_by_label("You speak").select_option("auto")
    await dialog.get_by_label("Press to start and to send").check()
    await dialog.get_by_label("Instructions").fill(" Be brief. ")
    await dialog.get_by_label("Suppress noise").focus()
    updates = await until(session, 5)
    assert updates == [
        {"type": "realtime", "audio": {"output": {"voice": "other"}}},
        {"type": "realtime", "audio": {"output": {"speed": 0.8}}},
        {"type": "realtime", "audio": {"input": {"transcription": {"language": "auto"}}}},
        {"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        {"type": "realtime", "instructions": "Be brief."},
    ]
    assert session.options.instructions == "Be brief."
    await dialog.get_by_role("button", name="Reset all").click()
    await until(session, 10)
    assert (session.options.voice, session.options.speed, session.options.turn_detection) == ("", None, "auto")
    assert session.options.instructions is None
    await dialog.get_by_role("button", name="Undo").click()
    await until(session, 15)
    assert (session.options.voice, session.options.speed, session.options.turn_detection) == ("other", 0.8, "manual")
    await dialog.get_by_label("Instructions").fill("Be long.")
    await page.keyboard.press("Escape")
    assert (await until(session, 16))[-1] == {"type": "realtime", "instructions": "Be long."}, "nothing typed is lost"
    await expect(page.locator("#problem")).to_be_hidden()


async def test_a_refusal_is_said_at_the_field_and_what_held_before_stays(page: Page, server: PageServer) -> None:
    session = await call(page, server)
    dialog = await settings(page)
    voice = dialog.get_by_label("Voice", exact=True)
    await voice.select_option("other")
    await until(session, 1)
    await voice.select_option("refused")
    field = dialog.locator(".field", has=page.get_by_label("Voice", exact=True))
    await expect(field.get_by_role("alert")).to_contain_text("there are test, other")
    await expect(voice).to_have_value("other")
    assert session.options.voice == "other"
    await expect(page.locator("#problem")).to_be_hidden()
    await voice.select_option("test")
    await expect(field.get_by_role("alert")).to_be_hidden()


async def test_another_microphone_takes_over_in_the_call(page: Page, server: PageServer) -> None:
    session = await call(page, server)
    before = await page.evaluate("window.senders.at(-1).track.id")
    dialog = await settings(page)
    microphone = dialog.get_by_label("Microphone", exact=True)
    await expect(microphone.locator("option", has_text="Fake Audio Input 2")).to_be_attached()
    await microphone.select_option(label="Fake Audio Input 2")
    chosen = await microphone.input_value()
    await becomes_true(page, "(before) => window.senders.at(-1).track.id !== before", before)
    now = await page.evaluate("window.senders.at(-1).track.getSettings().deviceId")
    assert now == chosen
    session.loudest = 0
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110 - sound that a browser sends
            await asyncio.sleep(0.02)


async def test_an_unplugged_microphone_is_replaced_until_it_is_back(page: Page, server: PageServer) -> None:
    await call(page, server)
    dialog = await settings(page)
    microphone = dialog.get_by_label("Microphone", exact=True)
    await expect(microphone.locator("option", has_text="Fake Audio Input 2")).to_be_attached()
    await microphone.select_option(label="Fake Audio Input 2")
    await becomes_true(page, "window.senders.at(-1).track?.label.includes('Input 2')")
    await dialog.get_by_role("button", name="Done").click()
    await page.evaluate(
        """
        window.unplugged = true;
        window.senders.at(-1).track.dispatchEvent(new Event("ended"));
        """
    )
    await expect(page.locator("#problem")).to_contain_text("Another microphone is in use")
    await becomes_true(page, "window.senders.at(-1).track?.label.includes('Default')")
    await page.evaluate("window.unplugged = false; navigator.mediaDevices.dispatchEvent(new Event('devicechange'))")
    await becomes_true(page, "window.senders.at(-1).track?.label.includes('Input 2')")
    await expect(page.locator("#problem")).to_be_hidden()


async def test_the_microphone_is_tried_out_and_the_call_does_not_hear_it(page: Page, server: PageServer) -> None:
    session = await call(page, server)
    await page.clock.install()
    dialog = await settings(page)
    meter = dialog.get_by_role("meter", name="How loud the microphone is")
    await expect(meter).not_to_have_attribute("aria-valuenow", "0")
    says = dialog.get_by_role("status").filter(has_text="…")
    await dialog.get_by_role("button", name="Test", exact=True).click()
    await expect(says).to_contain_text("Speak now")
    await asyncio.sleep(0.3)  # what was on its way
    session.loudest = 0
    await asyncio.sleep(0.5)
    assert session.loudest < 100
    await page.clock.fast_forward(3000)
    await expect(says).to_contain_text("how you sound")
    played = await page.evaluate("window.played.filter(({ source }) => source?.startsWith('blob:')).length")
    assert played == 1
    await expect(dialog.get_by_role("status").filter(has_text="Loud and clear")).to_be_visible()
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110 - heard again
            await asyncio.sleep(0.02)


async def test_a_chime_and_the_replies_come_out_of_the_chosen_speaker(page: Page, server: PageServer) -> None:
    dialog = await settings(page)
    speaker = dialog.get_by_label("Speaker", exact=True)
    name = "Fake Audio Output 1"
    await expect(speaker.locator("option", has_text=name)).to_be_attached()
    await speaker.select_option(label=name)
    chosen = await speaker.input_value()
    await dialog.get_by_role("button", name="Play a chime").click()
    await expect(dialog.get_by_role("status").filter(has_text="Not heard?")).to_be_visible()
    assert await page.evaluate("window.played.at(-1).sink ?? window.played.at(-1).sinkId") == chosen
    await becomes_true(page, "(id) => document.getElementById('voice').sinkId === id", chosen)


async def test_escape_closes_it_without_stopping_the_reply(page: Page, server: PageServer) -> None:
    session = await call(page, server)
    session.reply("r1", "A long reply.")
    dialog = await settings(page)
    await expect(dialog.get_by_role("heading", name="Settings")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("button", name="Settings", exact=True)).to_be_focused()
    await page.keyboard.press("Tab")
    session.send("parley.notice", code="x", text="Still there")
    await expect(page.locator(".notice")).to_be_visible()
    assert [event["type"] for event in session.received] == []


async def test_it_speaks_chinese(page: Page, server: PageServer) -> None:
    dialog = await settings(page)
    await dialog.get_by_label("Language of this page").select_option("zh")
    await expect(dialog.get_by_role("heading", name="设置")).to_be_visible()
    await expect(dialog.get_by_label("你说的语言").locator("option", has_text="德语")).to_be_attached()
    await expect(page.locator("#language")).to_have_value("zh")
    empty = await dialog.evaluate(
        "(el) => [...el.querySelectorAll('[data-text]')].filter((e) => !e.textContent).length"
    )
    assert empty == 0


async def test_without_a_microphone_the_rest_can_be_set(browser: Browser, server: PageServer) -> None:
    async with opened(browser, server, microphone_allowed=False) as page:
        dialog = await settings(page)
        await expect(dialog.get_by_text("must be allowed to listen")).to_be_visible()
        await dialog.get_by_role("button", name="Allow the microphone").click()
        await expect(dialog.get_by_text("address bar")).to_be_visible()
        await expect(dialog.get_by_role("meter")).to_be_hidden()
        await dialog.get_by_label("Voice", exact=True).select_option("other")
        assert await page.evaluate("import('/js/preferences.js').then((m) => m.preferences.get('voice'))") == "other"


async def test_where_nothing_may_be_kept_it_says_so_and_works(browser: Browser, server: PageServer) -> None:
    async with opened(browser, server, FORBIDDEN) as page:
        dialog = await settings(page)
        await expect(dialog.get_by_text("keeps nothing")).to_be_visible()
        await dialog.get_by_label("Large", exact=True).check(force=True)
        await expect(page.locator("html")).to_have_attribute("data-captions", "large")
        await dialog.get_by_role("button", name="Reset all").click()
        await expect(page.locator("html")).to_have_attribute("data-captions", "medium")


async def test_what_was_stored_is_not_trusted_and_a_missing_microphone_is_replaced(
    browser: Browser, server: PageServer
) -> None:
    stored = '{"speed": 9, "mode": "shout", "captions": "large", "microphone": "gone", "voice": "elsewhere", "x": 1}'
    async with opened(browser, server, f"localStorage.setItem('parley.preferences', '{stored}');") as page:
        session = await call(page, server)
        await expect(page.locator("#problem")).to_contain_text("Another microphone is in use")
        assert (session.options.voice, session.options.speed, session.options.turn_detection) == ("", None, "auto")
        await page.locator("#problem").get_by_role("button", name="Settings").click()
        dialog = page.locator("#settings")
        shown = dialog.get_by_label("Microphone", exact=True).locator("option:checked")
        await expect(shown).to_have_text("The one you chose (not connected)")
        await expect(dialog.get_by_label("Speed")).to_have_value("1")
        await expect(dialog.get_by_label("Large", exact=True)).to_be_checked()
