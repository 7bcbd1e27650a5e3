"""Turns by hand, silent answers, what can be kept of a conversation, and waiting for a free line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import av
import numpy as np
import pytest
import pytest_asyncio
from numpy.typing import NDArray
from playwright.async_api import Browser, Page, expect

from tests.kit.browser import open_page, page_errors
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost, ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def recording_server() -> AsyncIterator[PageServer]:
    async with page_server(ScriptedHost(), recording=True) as server:
        yield server


async def prefer(page: Page, **values: object) -> None:
    await page.evaluate(
        """async (values) => {
          const { preferences } = await import("./js/preferences.js");
          for (const [key, value] of Object.entries(values)) preferences.set(key, value);
        }""",
        values,
    )


async def talk(page: Page, server: PageServer) -> ScriptedSession:
    await page.locator("#talk").click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    return await server.session()


async def state(page: Page, name: str) -> None:
    await expect(page.locator("body")).to_have_attribute("data-state", name)


async def kinds(session: ScriptedSession, *expected: str) -> None:
    """The session has received just these events, in this order."""
    async with asyncio.timeout(5):
        while len(session.received) < len(expected):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [event["type"] for event in session.received] == list(expected)
    session.received.clear()


async def hears(session: ScriptedSession) -> None:
    session.loudest = 0
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110 - the fake microphone beeps once a second
            await asyncio.sleep(0.02)


async def hears_nothing(session: ScriptedSession) -> None:
    await asyncio.sleep(0.3)
    session.loudest = 0
    await asyncio.sleep(1.2)
    assert session.loudest < 100


async def test_space_is_held_to_talk_and_interrupts(page: Page, server: PageServer) -> None:
    await prefer(page, mode="push")
    session = await talk(page, server)
    assert session.options.turn_detection == "manual"
    await state(page, "ready")
    await hears_nothing(session)
    await page.keyboard.down("Space")
    await state(page, "listening")
    await hears(session)
    assert session.received == []
    await page.keyboard.up("Space")
    await kinds(session, "input_audio_buffer.commit")
    await state(page, "ready")
    session.send("input_audio_buffer.committed", item_id=None)
    await expect(page.locator("#hint")).to_have_text("Nothing was heard. Hold the button or Space while you speak.")
    await hears_nothing(session)
    session.reply("r1", "A long story.", heard=2)
    await state(page, "speaking")
    await expect(page.locator("#hint")).not_to_contain_text("Nothing was heard")
    await page.keyboard.down("Space")
    await kinds(session, "response.cancel")
    await page.keyboard.up("Space")
    await kinds(session, "input_audio_buffer.commit")
    await page.locator("#message").focus()
    await page.keyboard.type("a b")
    assert await page.locator("#message").input_value() == "a b", "a space that is typed is a space"
    await asyncio.sleep(0.2)
    assert session.received == []


async def test_the_button_is_held_to_talk(page: Page, server: PageServer) -> None:
    await prefer(page, mode="push")
    session = await talk(page, server)
    button = page.get_by_role("button", name="Hold to talk")
    await button.hover()
    await page.mouse.down()
    await expect(page.locator("#press")).to_have_text("Let go to send")
    await hears(session)
    await page.mouse.up()
    await kinds(session, "input_audio_buffer.commit")
    await expect(button).to_be_visible()


async def test_one_press_begins_and_another_sends(page: Page, server: PageServer) -> None:
    await prefer(page, mode="hold")
    session = await talk(page, server)
    await page.get_by_role("button", name="Press to talk").click()
    await hears(session)
    await page.get_by_role("button", name="Press to send").click()
    await kinds(session, "input_audio_buffer.commit")
    await state(page, "ready")
    await page.locator("#press").blur()
    await page.keyboard.press("Space")
    await state(page, "listening")
    await page.keyboard.press("Space")
    await kinds(session, "input_audio_buffer.commit")


async def test_the_way_to_take_turns_changes_in_the_call(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    assert session.options.turn_detection == "auto"
    await prefer(page, mode="push")
    await kinds(session, "session.update")
    assert session.options.turn_detection == "manual"
    await state(page, "ready")
    await prefer(page, mode="open")
    await kinds(session, "session.update")
    await state(page, "listening")
    await hears(session)


async def test_space_mutes_where_the_microphone_is_open_and_escape_stops(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await page.keyboard.press("Space")
    await expect(page.locator("#state")).to_have_text("Paused")
    await page.keyboard.press("Space")
    await expect(page.locator("#state")).to_have_text("Listening")
    session.reply("r1", "A long story.", heard=2)
    await state(page, "speaking")
    await page.keyboard.press("Escape")
    await kinds(session, "response.cancel")
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys).to_contain_text("Mute or unmute the microphone")
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    assert session.received == [], "escape closed the dialog and did no more"


async def test_a_microphone_that_the_system_mutes_is_told(page: Page, server: PageServer) -> None:
    await page.evaluate(
        """
        const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wish) => (window.mic = await open(wish));
        0;
        """
    )
    await talk(page, server)
    for muted, shown in ((True, "Paused"), (False, "Listening")):
        await page.evaluate(
            """(muted) => {
              const [track] = mic.getAudioTracks();
              Object.defineProperty(track, "muted", { value: muted, configurable: true });
              track.dispatchEvent(new Event(muted ? "mute" : "unmute"));
            }""",
            muted,
        )
        await expect(page.locator("#state")).to_have_text(shown)


async def test_what_is_typed_can_be_answered_silently(page: Page, server: PageServer) -> None:
    await page.get_by_role("button", name="Answer typed messages silently").click()
    await page.get_by_label("Type a message").fill("Hush")
    await page.keyboard.press("Enter")
    session = await server.session()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    async with asyncio.timeout(5):
        while len(session.received) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert session.received[1]["response"] == {"output_modalities": ["text"]}
    ids = {"response_id": "r1", "item_id": "r1"}
    session.send("response.created", response={"id": "r1", "status": "in_progress"})
    session.send("response.output_text.delta", **ids, delta="As you ")
    session.send("response.output_text.delta", **ids, delta="wish.")
    session.send("response.output_text.done", **ids, text="As you wish.")
    session.send("response.done", response={"id": "r1", "status": "completed", "usage": {}})
    await expect(page.locator(".parley .said")).to_have_text("As you wish.")
    assert "".join(await page.locator(".parley .heard").all_text_contents()) == "As you wish.", (
        "read is as good as heard"
    )
    await expect(page.get_by_role("status").filter(has_text="As you wish.")).to_have_count(1)


async def interrupted_conversation(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.user_says("u1", "Tell me.")
    session.reply("r1", "One two three four.", heard=7)
    session.reply_over("r1", "One two", status="cancelled")
    session.turn("r1", endpoint=412.4, voice_to_voice=735)
    await expect(page.locator(".parley .total")).to_be_visible()


async def downloaded(page: Page, button: str) -> tuple[str, Path]:
    async with page.expect_download() as waiting:
        await page.locator(button).click()
    file = await waiting.value
    return file.suggested_filename, await file.path()


async def test_the_conversation_can_be_downloaded(page: Page, server: PageServer) -> None:
    await interrupted_conversation(page, server)
    await page.locator("#save summary").click()
    name, path = await downloaded(page, "#save-text")
    assert name.startswith("parley-")
    assert name.endswith(".txt")
    heading, *lines = path.read_text().strip().splitlines()
    assert heading.startswith("Parley, ")
    assert [line.partition("] ")[2] for line in lines if line] == [
        "You: Tell me.",
        "Parley: One two [not heard: three four.]",
    ]
    await page.locator("#save summary").click()
    name, path = await downloaded(page, "#save-json")
    assert name.endswith(".json")
    question, answer = json.loads(path.read_text())["items"]
    assert (question["role"], question["text"]) == ("user", "Tell me.")
    assert (answer["heard"], answer["unheard"]) == ("One two", " three four.")
    assert (answer["status"], answer["timings_ms"]) == ("cancelled", {"endpoint": 412.4, "voice_to_voice": 735})
    assert answer["at"].endswith("Z")


async def test_the_conversation_and_each_of_its_parts_can_be_copied(page: Page, server: PageServer) -> None:
    await page.context.grant_permissions(["microphone", "clipboard-read", "clipboard-write"])
    await interrupted_conversation(page, server)
    await page.locator(".user").hover()
    await page.locator(".user .copy").click()
    await expect(page.locator(".user .copy")).to_have_attribute("data-done", "yes")
    assert await page.evaluate("navigator.clipboard.readText()") == "Tell me."
    await page.get_by_role("button", name="Copy the conversation").click()
    await expect(page.locator("#copy-all")).to_have_attribute("data-done", "yes")
    assert "Parley: One two [not heard: three four.]" in await page.evaluate("navigator.clipboard.readText()")


def decoded(path: Path) -> tuple[NDArray[np.float64], int]:
    """All samples as ``[channels, n]`` in -1..1, and their rate."""
    with av.open(str(path)) as file:
        frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
        rate_hz = file.streams.audio[0].rate
    return np.concatenate(frames, axis=1).astype(np.float64), rate_hz


async def test_a_call_is_recorded_once_both_agree(browser: Browser, recording_server: PageServer) -> None:
    page = await open_page(browser, recording_server.url)
    session = await talk(page, recording_server)
    await page.get_by_role("button", name="Record this call").click()
    await kinds(session, "parley.recording")
    await expect(page.locator("#recording")).to_be_visible()
    session.play_tone(440, seconds=1.5)
    await asyncio.sleep(2.5)
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(page.locator("#recording")).to_be_hidden()
    await expect(page.locator("#kept")).to_contain_text("Recording of the call")
    name, path = await downloaded(page, "#kept-save")
    assert name.endswith(".webm")
    await expect(page.locator("#kept-label")).to_have_text(f"Downloaded as {name}")
    sound, rate_hz = decoded(path)
    assert sound.shape[0] == 2
    assert sound.shape[1] > 1.8 * rate_hz
    spectrum = np.abs(np.fft.rfft(sound[1]))
    hz = np.fft.rfftfreq(sound.shape[1], 1 / rate_hz)
    reply = spectrum[(hz > 430) & (hz < 450)].max()
    assert reply > 5 * np.median(spectrum[(hz > 300) & (hz < 600)]), "the reply is in it"
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator("#kept")).to_be_hidden()
    assert page_errors(page) == []
    await page.context.close()


async def test_nothing_is_recorded_where_the_server_does_not_agree(
    browser: Browser, page: Page, server: PageServer, recording_server: PageServer
) -> None:
    await talk(page, server)
    await expect(page.locator("#record")).to_be_hidden()
    refused = await open_page(browser, recording_server.url)
    await prefer(refused, record=True)
    for old in recording_server.host.sessions:
        await old.close("over")
    await refused.locator("#talk").click()
    session = await recording_server.session()
    await kinds(session, "parley.recording")  # it is asked for as the call begins, as the person prefers
    await expect(refused.locator("#recording")).to_be_visible()
    refusal = {"type": "invalid_request_error", "code": "x", "message": "x", "event_id": "recording"}
    session.send("error", error=refusal)
    await expect(refused.locator("#recording")).to_be_hidden()
    await expect(refused.locator("#problem")).to_have_attribute("data-code", "recording_refused")
    await expect(refused.locator("body")).to_have_attribute("data-phase", "call")
    await refused.context.close()


async def test_a_full_server_is_tried_until_there_is_a_line(page: Page, server: PageServer) -> None:
    server.host.limit = 0
    await page.locator("#talk").click()
    await expect(page.locator("#state")).to_have_text("All lines are busy")
    await page.get_by_role("button", name="Keep trying for me").click()
    await expect(page.locator("#hint")).to_contain_text("Trying again in")
    for _ in range(2):
        await page.evaluate("dispatchEvent(new Event('online'))")
        await state(page, "full")
        await expect(page.locator("#hint")).to_contain_text("Trying again in")
    server.host.limit = 1
    await page.evaluate("dispatchEvent(new Event('online'))")
    await state(page, "listening")
    await expect(page.locator("#problem")).to_be_hidden()
    await hears(await server.session())


async def test_who_has_waited_enough_can_leave_it(page: Page, server: PageServer) -> None:
    server.host.limit = 0
    await page.locator("#talk").click()
    await page.get_by_role("button", name="Keep trying for me").click()
    await page.get_by_role("button", name="Cancel").click()
    await state(page, "idle")
    server.host.limit = 1
    await page.evaluate("dispatchEvent(new Event('online'))")
    await asyncio.sleep(0.3)
    assert not server.host.sessions
