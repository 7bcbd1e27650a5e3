"""Whatever goes wrong, the page says what it is and offers a way on."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.kit.browser import chromium, open_page
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def expect_problem(page: Page, code: str, title: str) -> None:
    await expect(page.locator("#problem")).to_have_attribute("data-code", code)
    await expect(page.get_by_role("alert").get_by_role("heading")).to_have_text(title)


async def test_a_refused_microphone_leaves_typing(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, microphone_allowed=False)
    await page.locator("#talk").click()
    await expect_problem(page, "microphone_denied", "The microphone is blocked")
    assert not server.host.sessions, "no call is opened for someone who cannot be heard"
    await page.get_by_role("button", name="Type instead").click()
    await expect(page.get_by_label("Type a message")).to_be_focused()
    await page.keyboard.type("Hello")
    await page.keyboard.press("Enter")
    await expect(page.locator("#state")).to_have_text("Ready for your message")
    await expect(page.locator("#problem")).to_be_hidden()
    await page.context.close()


async def test_without_a_microphone_or_a_secure_address_the_page_says_so() -> None:
    rules = "--host-resolver-rules=MAP parley.test 127.0.0.1"
    async with page_server(ScriptedHost()) as probe:
        port = int(probe.url.rstrip("/").rpartition(":")[2])
    insecure = f"http://parley.test:{port}"
    async with (
        chromium(device=False, flags=(rules,)) as browser,
        page_server(ScriptedHost(), port, allowed_origins=(insecure,)) as server,
    ):
        page = await open_page(browser, server.url)
        await page.locator("#talk").click()
        await expect_problem(page, "microphone_missing", "No microphone found")
        await expect(page.get_by_role("button", name="Try again")).to_be_visible()
        page = await open_page(browser, insecure, microphone_allowed=False)
        await page.locator("#talk").click()
        await expect_problem(page, "insecure_context", "This address is not secure")
        await expect(page.get_by_role("button", name="Type instead")).to_be_visible()


async def test_a_server_that_is_gone_is_named_and_can_be_tried_again(browser: Browser) -> None:
    host = ScriptedHost()
    async with page_server(host) as server:
        page = await open_page(browser, server.url)
    port = int(server.url.rstrip("/").rpartition(":")[2])
    await page.locator("#talk").click()
    await expect_problem(page, "server_unreachable", "The server does not answer")
    await expect(page.locator("body")).to_have_attribute("data-phase", "idle")
    async with page_server(host, port):
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await expect(page.locator("#problem")).to_be_hidden()
        session = await server.session()
        session.reply("r1", "An unfinished reply", heard=2)
        await expect(page.locator(".parley")).to_be_visible()
        await session.close("out_of_order")
        await expect_problem(page, "server_closed", "The server ended the call")
        await expect(page.locator(".parley")).to_have_attribute("data-status", "cancelled")
        await page.get_by_role("button", name="Reconnect").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    await expect(page.locator("#hint")).to_contain_text("The server is stopping or starting anew")
    await expect(page.locator("body")).to_have_attribute("data-phase", "reconnecting")
    await expect(page.locator("#announcer")).to_contain_text("The server is stopping")
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "ended")
    await expect(page.locator(".parley .said")).to_have_text("An unfinished reply")
    await page.context.close()


async def test_a_server_that_falls_silent_is_noticed_and_gone_back_to(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, "about:blank")
    await page.clock.install()
    await page.goto(server.url)
    await page.locator("#talk").click()
    session = await server.session()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    session.silent = True
    await page.clock.fast_forward(8_000)
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    await page.clock.fast_forward(8_000)
    await expect(page.locator("body")).to_have_attribute("data-phase", "reconnecting")
    session.silent = False
    await page.clock.resume()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    assert server.host.sessions == [session], "the same call goes on"
    await page.context.close()


async def test_blocked_media_is_told_from_a_server_that_is_gone(browser: Browser) -> None:
    async def cut_off(route: Route) -> None:
        """Neither side learns an address at which the other can be reached."""
        offer = route.request.post_data_json
        offer["sdp"] = "".join(line for line in offer["sdp"].splitlines(True) if not line.startswith("a=candidate"))
        response = await route.fetch(post_data=json.dumps(offer))
        answer = await response.json()
        answer["sdp"] = answer["sdp"].replace(" 127.0.0.1 ", " 192.0.2.1 ")
        await route.fulfill(response=response, json=answer)

    async with page_server(ScriptedHost(), connect_timeout_s=1.5) as server:
        page = await open_page(browser, server.url)
        await page.route("**/offer", cut_off)
        await page.route_web_socket("**/call", lambda socket: socket.close(code=1011))
        await page.locator("#talk").click()
        await expect_problem(page, "no_connection", "No sound connection")
        await page.unroute("**/offer")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await page.context.close()


async def test_a_full_server_says_that_all_lines_are_busy(page: Page, server: PageServer) -> None:
    server.host.limit = 0
    await page.get_by_label("Type a message").fill("Still there?")
    await page.keyboard.press("Enter")
    await expect(page.locator("#state")).to_have_text("All lines are busy")
    await expect_problem(page, "session_limit", "Wait for a line?")
    server.host.limit = 1
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    session = await server.session()
    async with asyncio.timeout(5):
        while not session.received:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert session.received[0]["item"]["content"][0]["text"] == "Still there?", "what was typed is not lost"


async def test_a_token_is_asked_for_and_taken_from_the_address(browser: Browser) -> None:
    async with page_server(ScriptedHost(), token="s3cret") as server:
        page = await open_page(browser, f"{server.url}#token=wrong")
        assert page.url == server.url, "the token does not stay in the address"
        await page.locator("#talk").click()
        await expect_problem(page, "wrong_token", "This server wants a token")
        await page.get_by_label("Access token").fill("s3cret")
        await page.get_by_role("button", name="Connect").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await page.locator("#talk").click()
        await asyncio.wait_for(server.host.sessions[-1].wait_closed(), 5)
        await page.reload()
        await page.locator("#talk").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await page.context.close()
        page = await open_page(browser, f"{server.url}#token=s3cret")
        await page.locator("#talk").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call")
        await page.context.close()


async def test_trouble_in_a_call_is_told_without_ending_it(page: Page, server: PageServer) -> None:
    await page.locator("#talk").click()
    session = await server.session()
    session.send("parley.notice", code="stage_failed", text="Sorry, say that again.")
    await expect(page.locator(".notice")).to_have_text("Sorry, say that again.")
    session.send("error", error={"type": "server_error", "code": "stage_failed", "message": "x", "event_id": None})
    await expect_problem(page, "session_trouble", "Something went wrong in the call")
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    session.reply("r1", "Back again.", heard=4)
    await expect(page.locator("#problem")).to_be_hidden()


async def test_a_call_that_idles_out_says_why(page: Page, server: PageServer) -> None:
    await page.locator("#talk").click()
    session = await server.session()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    await session.close("idle_timeout")
    await expect_problem(page, "idle", "The call ended after a long silence")


async def test_a_call_that_ends_with_a_goodbye_is_no_problem(page: Page, server: PageServer) -> None:
    await page.locator("#talk").click()
    session = await server.session()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    await session.close("goodbye")
    await expect(page.locator("body")).to_have_attribute("data-phase", "ended")
    await expect(page.locator("#problem")).to_be_hidden()


async def test_refused_sound_can_be_tapped_on(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, "about:blank")
    await page.add_init_script(
        """
        const play = HTMLMediaElement.prototype.play;
        HTMLMediaElement.prototype.play = function () {
          return window.allowed ? play.call(this) : Promise.reject(new DOMException("no", "NotAllowedError"));
        };
        """
    )
    await page.goto(server.url)
    await page.locator("#talk").click()
    button = page.get_by_role("button", name="Tap to hear the reply")
    await expect(button).to_be_visible()
    await page.evaluate("window.allowed = true")
    await button.click()
    await expect(button).to_be_hidden()
    await page.wait_for_function("!document.getElementById('voice').paused")
    await page.context.close()


async def test_a_microphone_that_vanishes_leaves_the_call_open(page: Page, server: PageServer) -> None:
    await page.evaluate(
        """
        const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wish) => {
          if (window.unplugged) throw new DOMException("", "NotFoundError");
          return (window.mic = await open(wish));
        };
        0;
        """
    )
    await page.locator("#talk").click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    await page.evaluate("window.unplugged = true; mic.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
    await expect_problem(page, "microphone_lost", "The microphone went away")
    await page.evaluate("window.unplugged = false")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#state")).to_have_text("Listening")
    await expect(page.locator("#problem")).to_be_hidden()
