"""What the page shows and plays in a call that goes well."""

from __future__ import annotations

import asyncio
from typing import Literal

import numpy as np
import pytest
from playwright.async_api import Browser, Page, expect

from tests.kit.browser import open_page, recorded
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def talk(page: Page, server: PageServer) -> ScriptedSession:
    await page.get_by_role("button", name="Talk", exact=True).click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    return await server.session()


async def words(page: Page, kind: str) -> str:
    return "".join(await page.locator(f".parley .{kind}").all_text_contents())


async def test_one_click_opens_a_call_in_which_the_microphone_is_heard(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await expect(page.locator("#state")).to_have_text("Listening")
    async with asyncio.timeout(5):
        while session.frames < 50 or session.loudest < 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(page.locator("#state")).to_have_text("Call ended")
    await asyncio.wait_for(session.wait_closed(), 2)


async def test_each_state_reads_at_a_glance(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    for state, shown in (
        ("hearing", "Hearing you"),
        ("thinking", "Thinking"),
        ("speaking", "Speaking"),
        ("listening", "Listening"),
    ):
        session.state(state)
        await expect(page.locator("#state")).to_have_text(shown)
        await expect(page.locator("body")).to_have_attribute("data-state", state)


async def test_both_sides_appear_and_heard_words_turn_solid(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.send("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=0)
    await expect(page.locator(".user .dots")).to_be_visible()
    session.user_says("u1", "What is a parley?")
    await expect(page.locator(".user .said")).to_have_text("What is a parley?")
    session.reply("r1", "A par", "ley is a ta", "lk. 😀 Yes.")
    await expect(page.locator(".parley .said")).to_have_text("A parley is a talk. 😀 Yes.")
    assert await words(page, "heard") == ""
    ids = {"response_id": "r1", "item_id": "item_r1"}
    session.send("parley.heard", **ids, chars=7)
    await expect(page.locator(".parley .heard").first).to_be_visible()
    assert await words(page, "heard") == "A ", "half of a word is not heard"
    session.send("parley.heard", **ids, chars=21)  # in UTF-16 the 21st unit is half of the face
    await expect(page.locator(".heard", has_text="😀")).to_be_visible()
    assert await words(page, "heard") == "A parley is a talk. 😀", "positions count characters, not UTF-16 units"
    session.reply_over("r1", "A parley is a talk. 😀 Yes.")
    await expect(page.locator(".heard", has_text="Yes.")).to_be_visible()
    assert await words(page, "unheard") == ""


async def test_words_appear_while_they_are_spoken_and_what_was_no_turn_leaves_nothing(
    page: Page, server: PageServer
) -> None:
    session = await talk(page, server)
    session.send("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=0)
    for delta in ("Tell me", " about the"):
        session.send("conversation.item.input_audio_transcription.delta", item_id="u1", delta=delta)
    await expect(page.locator(".user .said")).to_have_text("Tell me about the")
    await expect(page.locator(".user .dots")).to_be_visible()
    session.user_says("u1", "Tell me about the sea.")
    await expect(page.locator(".user .said")).to_have_text("Tell me about the sea.")
    failed = "conversation.item.input_audio_transcription.failed"
    for item_id, end in (
        ("u2", {"type": "parley.backchannel", "transcript": "Mm-hm."}),
        ("u3", {"type": failed, "error": {"type": "asr_error", "code": "no_words", "message": "x"}}),
        ("u4", {"type": failed, "error": {"type": "asr_error", "code": "echo", "message": "x"}}),
    ):
        session.send("input_audio_buffer.speech_started", item_id=item_id, audio_start_ms=0)
        await expect(page.locator(".user")).to_have_count(2)
        session.send(**end, item_id=item_id)
        await expect(page.locator(".user")).to_have_count(1)


async def test_a_script_without_spaces_turns_solid_by_character(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.reply("r1", "你好，今天天气很好。", heard=4)
    await expect(page.locator(".parley .heard").last).to_be_visible()
    assert await words(page, "heard") == "你好，今"


async def test_an_interruption_strikes_through_exactly_what_was_not_heard(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.reply("r1", "One two three ", "four five.", heard=7)
    session.reply_over("r1", "One two", status="cancelled")
    await expect(page.locator(".parley")).to_have_attribute("data-status", "cancelled")
    assert await words(page, "heard") == "One two"
    assert (await words(page, "unheard")).strip() == "three four five."
    style = await page.locator(".unheard").first.evaluate("(el) => getComputedStyle(el).textDecorationLine")
    assert style == "line-through"
    await expect(page.locator(".parley .foot")).to_contain_text("interrupted")


async def test_a_turn_shows_its_latency(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.reply("r1", "Hello.", heard=6)
    session.reply_over("r1", "Hello.")
    session.turn("r1", endpoint=412.4, asr=121, voice_to_voice=735)
    await expect(page.locator(".parley .foot")).to_contain_text("Answered in 0.73 s")


async def test_the_end_stays_in_sight_when_a_problem_takes_room_unless_one_has_scrolled_up(
    page: Page, server: PageServer
) -> None:
    below = "(el) => Math.round(el.scrollHeight - el.scrollTop - el.clientHeight)"
    scroller = page.locator("#scroller")
    session = await talk(page, server)
    for number in range(12):
        session.user_says(f"u{number}", "One more of many lines.")
    await expect(page.locator(".user")).to_have_count(12)
    trouble = {"type": "server_error", "code": "stage_failed", "message": "x", "event_id": None}
    session.send("error", error=trouble)
    await expect(page.locator("#problem")).to_be_visible()
    await page.wait_for_timeout(100)
    assert await scroller.evaluate(below) <= 1
    await page.get_by_role("button", name="Dismiss").click()
    await scroller.evaluate("(el) => el.scrollTo(0, 0)")
    await page.wait_for_timeout(100)
    session.send("error", error=trouble)
    await expect(page.locator("#problem")).to_be_visible()
    await page.wait_for_timeout(100)
    assert await scroller.evaluate("(el) => el.scrollTop") == 0


async def test_what_is_said_stays_text(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    evil = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
    session.user_says("u1", evil)
    session.reply("r1", *evil, heard=5)
    session.send("parley.notice", code="x", text=evil)
    await expect(page.locator(".user .said")).to_have_text(evil)
    await expect(page.locator(".parley .said")).to_have_text(evil)
    await expect(page.locator(".notice")).to_have_text(evil)
    assert await page.evaluate("window.pwned") is None
    assert await page.locator("#transcript img, #transcript script").count() == 0


async def test_the_reply_is_played(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, record=True)
    session = await talk(page, server)
    session.play_tone(440, seconds=1.5)
    await asyncio.sleep(2.2)
    pcm = (await recorded(page)).astype(np.float64)
    loud = pcm[np.abs(pcm) > 500]
    assert len(loud) > 30_000, "over 0.6 s of the tone arrived"
    middle = pcm[np.flatnonzero(np.abs(pcm) > 500)[0] :][9_600 : 9_600 + 24_000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert abs(np.argmax(spectrum) * 48_000 / len(middle) - 440) < 4.4
    await page.context.close()


async def test_typing_starts_a_call_without_asking_for_a_microphone(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, microphone_allowed=False)
    await page.get_by_label("Type a message").fill("  Hello there  ")
    await page.keyboard.press("Enter")
    session = await server.session()
    async with asyncio.timeout(5):
        while len(session.received) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    created, asked = session.received
    assert created["item"]["content"] == [{"type": "input_text", "text": "Hello there"}]
    assert asked["type"] == "response.create"
    await expect(page.locator(".user")).to_have_attribute("data-status", "pending")
    session.send(
        "conversation.item.input_audio_transcription.completed",
        item_id="u1",
        transcript="Hello there",
        language="en",
    )
    await expect(page.locator(".user")).to_have_attribute("data-status", "done")
    assert await page.locator(".user").count() == 1
    await expect(page.locator("#problem")).to_be_hidden()
    await page.context.close()


async def test_a_microphone_can_join_a_typed_call(page: Page, server: PageServer) -> None:
    await page.get_by_label("Type a message").fill("Hello")
    await page.keyboard.press("Enter")
    session = await server.session()
    await expect(page.locator("#state")).to_have_text("Ready for your message")
    await page.get_by_role("button", name="Turn the microphone on").click()
    await expect(page.locator("#state")).to_have_text("Listening")
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_mute_silences_the_microphone(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await page.get_by_role("button", name="Mute the microphone").click()
    await expect(page.locator("#state")).to_have_text("Paused")
    await asyncio.sleep(0.5)
    session.loudest = 0
    await asyncio.sleep(1.5)  # the fake microphone beeps once a second
    assert session.loudest < 100
    await page.get_by_role("button", name="Unmute the microphone").click()
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_whole_page_works_by_keyboard(page: Page, server: PageServer) -> None:
    await page.locator("#talk").focus()
    await page.keyboard.press("Enter")
    session = await server.session()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    session.reply("r1", "A long story.", heard=2)
    await expect(page.get_by_role("button", name="Stop the reply")).to_be_enabled()
    await page.keyboard.press("Escape")
    async with asyncio.timeout(5):
        while not session.received:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert session.received[0]["type"] == "response.cancel"
    reached = []
    await page.locator("#language").focus()
    for _ in range(6):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert reached == ["open-settings", "mute", "talk", "stop", "scroller", "copy"]
    await page.locator("#talk").focus()
    await page.keyboard.press("Space")
    await expect(page.locator("#state")).to_have_text("Call ended")


async def test_the_language_follows_the_browser_and_the_switch(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, locale="zh-CN")
    await expect(page.locator("#state")).to_have_text("随时可以开始")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await page.locator("#language").select_option("en")
    await expect(page.locator("#state")).to_have_text("Ready when you are")
    await page.reload()
    await expect(page.locator("#state")).to_have_text("Ready when you are")
    await page.context.close()


async def test_both_languages_have_every_sentence(page: Page) -> None:
    keys = await page.evaluate(
        """async () => {
          const { en, zh } = await import("./js/strings/call.js");
          return [Object.keys(en), Object.keys(zh)];
        }"""
    )
    assert keys[0] == keys[1]
    assert len(keys[0]) > 80


async def test_everything_fits_every_screen(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.user_says("u1", "word " * 60)
    session.reply("r1", "Incomprehensibilities" * 8, " and more." * 40, heard=9)
    await expect(page.locator(".parley")).to_be_visible()
    for width, height in ((320, 568), (390, 844), (844, 390), (1280, 800)):
        await page.set_viewport_size({"width": width, "height": height})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        for control in ("#talk", "#mute", "#stop", "#message", "#state"):
            box = await page.locator(control).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["y"] >= 0
            assert box["x"] + box["width"] <= width, (control, width)
            assert box["y"] + box["height"] <= height, (control, height)
        scroller = await page.locator("#scroller").bounding_box()
        assert scroller is not None
        assert scroller["height"] > 60


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
async def test_the_picture_moves_only_for_those_who_like_it(
    browser: Browser, server: PageServer, motion: Literal["reduce", "no-preference"], moves: bool
) -> None:
    page = await open_page(browser, server.url, reduced_motion=motion)
    await page.wait_for_timeout(300)
    first = await page.evaluate("document.getElementById('orb').toDataURL()")
    await page.wait_for_timeout(400)
    assert (await page.evaluate("document.getElementById('orb').toDataURL()") != first) is moves
    await page.context.close()


async def test_two_pages_keep_apart(browser: Browser, page: Page, server: PageServer) -> None:
    first = await talk(page, server)
    other_page = await open_page(browser, server.url)
    await other_page.locator("#talk").click()
    await expect(other_page.locator("body")).to_have_attribute("data-phase", "call")
    second = server.host.sessions[-1]
    assert second is not first
    first.user_says("u1", "red")
    second.user_says("u1", "blue")
    await expect(page.locator(".user .said")).to_have_text(["red"])
    await expect(other_page.locator(".user .said")).to_have_text(["blue"])
    await other_page.context.close()
    async with asyncio.timeout(5):
        while not second.left:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not first.left
