"""A refresh, a lost connection, another tab: the call goes on, and nothing is said or shown twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect

from app.dialogue.ports import LastHeard
from tests.kit.browser import open_page
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost, ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

_HISTORY: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "text": "What is a parley?", "unheard": ""},
    {"id": "r1", "role": "assistant", "text": "A talk ", "unheard": "between enemies."},
]


async def phase(page: Page, name: str) -> None:
    await expect(page.locator("body")).to_have_attribute("data-phase", name)


async def conversation(page: Page, server: PageServer) -> ScriptedSession:
    """A call with a question and an answer that was interrupted."""
    await page.locator("#talk").click()
    await phase(page, "call")
    session = await server.session()
    session.user_says("u1", "What is a parley?")
    session.reply("r1", "A talk between enemies.", heard=7)
    session.reply_over("r1", "A talk ", status="cancelled")
    session.history = _HISTORY
    await expect(page.locator(".parley .unheard").first).to_be_visible()
    return session


async def received(session: ScriptedSession, kind: str, count: int = 1) -> None:
    async with asyncio.timeout(5):
        while sum(event["type"] == kind for event in session.received) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def expect_the_conversation_once(page: Page) -> None:
    await expect(page.locator("#transcript .said")).to_have_text(["What is a parley?", "A talk between enemies."])
    await expect(page.locator(".parley .unheard")).to_have_text(["between", " ", "enemies."])


async def test_a_refresh_goes_on_with_the_call(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    session.send("input_audio_buffer.speech_started", item_id="u9", audio_start_ms=0)  # whose end nobody will hear of
    await expect(page.locator(".user")).to_have_count(2)
    await page.reload()
    await phase(page, "call")
    assert server.host.sessions == [session], "no second call was begun"
    assert session.close_reason is None
    assert session.heard == LastHeard("r1", 7)
    await expect_the_conversation_once(page)
    session.loudest = 0
    async with asyncio.timeout(5):
        while session.loudest < 1000:  # noqa: ASYNC110 - the microphone is in the call again
            await asyncio.sleep(0.02)


async def test_a_reply_under_way_is_taken_up_where_it_was(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    session.reply("r2", "One two ", "three", heard=3)
    await expect(page.locator(".parley")).to_have_count(2)
    await page.reload()
    await phase(page, "call")
    session.reply("r2", "One two three four.", heard=7)
    session.reply_over("r2", "One two three four.")
    await expect(page.locator(".parley .said").last).to_have_text("One two three four.")
    await expect(page.locator(".parley")).to_have_count(2)
    await expect(page.locator(".parley").last.locator(".unheard")).to_have_count(0)


async def test_where_the_microphone_has_to_be_asked_for_one_button_continues(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    await page.add_init_script("navigator.permissions.query = async () => ({ state: 'prompt' });")
    await page.reload()
    await expect(page.locator("#state")).to_have_text("Your call is waiting")
    await expect(page.locator("#transcript .said")).to_have_count(2)
    assert session.left
    await page.get_by_role("button", name="Continue").click()
    await phase(page, "call")
    await expect_the_conversation_once(page)


async def test_ending_a_call_leaves_nothing_to_come_back_to(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    await page.get_by_role("button", name="End", exact=True).click()
    await asyncio.wait_for(session.wait_closed(), 5)
    await page.reload()
    await phase(page, "idle")


async def test_a_lost_connection_comes_back_by_itself(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    reachable = asyncio.Event()

    async def later(route: Route) -> None:
        await reachable.wait()
        await route.continue_()

    await page.route("**/config.json", later)
    await server.host.lose(session)
    await phase(page, "reconnecting")
    await page.get_by_label("Type a message").fill("Still there?")
    await page.keyboard.press("Enter")
    reachable.set()
    await phase(page, "call")
    assert session.heard == LastHeard("r1", 7)
    await received(session, "response.create")
    said = [event["item"]["content"][0]["text"] for event in session.received if "item" in event]
    assert said == ["Still there?"], "what was typed meanwhile is sent, and once"
    await expect(page.locator("#transcript .said")).to_have_count(3)
    await expect(page.locator("#problem")).to_be_hidden()


async def test_a_server_that_was_restarted_answers_a_new_call(browser: Browser) -> None:
    async with page_server(ScriptedHost()) as server:
        page = await open_page(browser, server.url)
        await conversation(page, server)
    port = int(server.url.rstrip("/").rpartition(":")[2])
    await phase(page, "reconnecting")
    await expect(page.locator("#state")).to_have_text("Reconnecting…")
    async with page_server(ScriptedHost(), port) as again:
        await page.evaluate("dispatchEvent(new Event('online'))")
        await phase(page, "call")
        assert len(again.host.sessions) == 1
        await expect(page.locator(".item.call")).to_contain_text("A new call")
        await page.locator("#talk").click()
        await page.context.close()


async def test_a_server_that_stays_away_is_given_up_with_a_way_on(browser: Browser) -> None:
    host = ScriptedHost()
    page = await open_page(browser, "about:blank")
    await page.clock.install()
    async with page_server(host) as server:
        await page.goto(server.url)
        await conversation(page, server)
    await phase(page, "reconnecting")
    await page.clock.fast_forward(1000 * (host.settings.server.resume_s + 5))
    await page.clock.resume()
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(page.locator("#problem")).to_have_attribute("data-code", "server_stopping")
    await phase(page, "ended")
    await expect(page.get_by_role("button", name="Reconnect")).to_be_visible()
    await expect(page.locator("#transcript .said")).to_have_count(2)
    await page.context.close()


async def test_a_call_can_be_ended_while_it_is_away(browser: Browser) -> None:
    async with page_server(ScriptedHost()) as server:
        page = await open_page(browser, server.url)
        await conversation(page, server)
    await phase(page, "reconnecting")
    await page.get_by_role("button", name="End", exact=True).click()
    await phase(page, "ended")
    await expect(page.locator("#problem")).to_be_hidden()
    await page.context.close()


async def test_another_tab_takes_the_call_over_and_it_can_be_taken_back(page: Page, server: PageServer) -> None:
    session = await conversation(page, server)
    kept = await page.evaluate("sessionStorage.getItem('parley.call')")
    tab = await page.context.new_page()
    await tab.add_init_script(f"sessionStorage.setItem('parley.call', {json.dumps(kept)})")
    await tab.goto(server.url)
    await phase(tab, "left")
    await phase(page, "call")
    await tab.get_by_role("button", name="Continue").click()
    await phase(tab, "call")
    await phase(page, "elsewhere")
    await expect(page.locator("#hint")).to_contain_text("Take it back, or leave this tab alone")
    await expect(page.locator("#announcer")).to_contain_text("In another tab")
    await expect(page.locator("#transcript .said")).to_have_count(2)
    session.user_says("u2", "Here now.")
    session.history = [*_HISTORY, {"id": "u2", "role": "user", "text": "Here now.", "unheard": ""}]
    await expect(tab.locator("#transcript .said").last).to_have_text("Here now.")
    await page.get_by_role("button", name="Take it back").click()
    await phase(page, "call")
    await phase(tab, "elsewhere")
    await expect(page.locator("#transcript .said")).to_have_text(
        ["What is a parley?", "A talk between enemies.", "Here now."]
    )
    assert server.host.sessions == [session]
    assert session.close_reason is None
    await tab.close()
