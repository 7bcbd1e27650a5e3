"""The self-test page names what keeps a call from working, and the way on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from tests.kit import coturn
from tests.kit.browser import chromium, loopback_media, open_page, page_errors
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = "--host-resolver-rules=MAP parley.test 127.0.0.1, MAP nowhere.test ~NOTFOUND"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Its microphone beeps, which is as loud as speech."""
    with loopback_media():
        async with chromium(flags=(NAMES,)) as browser:
            yield browser


async def expect_verdict(page: Page, mood: str, title: str) -> None:
    await expect(page.locator("#verdict")).to_have_attribute("data-mood", mood, timeout=15_000)
    await expect(page.locator("#verdict-title")).to_have_text(title)


async def expect_row(page: Page, check: str, state: str, words: str) -> None:
    row = page.locator(f"[data-check={check}]")
    await expect(row).to_have_attribute("data-state", state, timeout=15_000)
    await expect(row).to_contain_text(words)


@asynccontextmanager
async def checking(browser: Browser, url: str, **context: object) -> AsyncIterator[Page]:
    """The self-test page; in the end no script failed and no policy was violated."""
    page = await open_page(browser, f"{url}check.html", **context)  # type: ignore[arg-type]
    page.set_default_timeout(10_000)
    yield page
    assert page_errors(page) == []
    await page.context.close()


async def test_where_all_is_well_the_page_says_so_and_uses_no_session(browser: Browser, server: PageServer) -> None:
    async with checking(browser, server.url) as page:
        await expect_verdict(page, "good", "The connection is good")
        await expect_row(page, "webrtc", "ok", "Connected directly")
        await expect_row(page, "ice", "ok", "none is needed")
        await expect_row(page, "socket", "ok", "The spare way is open")
        await expect_row(page, "microphone", "waiting", "Microphone")
        await page.get_by_role("button", name="Test microphone and speaker").click()
        await expect(page.get_by_role("button", name="Yes")).to_be_focused()
        await expect(page.get_by_role("button", name="Yes")).to_be_in_viewport()
        await expect(page.locator("#verdict-title")).to_have_text("Your answer is wanted")
        await expect(page.get_by_role("button", name="Copy the report")).to_be_visible()
        await page.locator("h1").scroll_into_view_if_needed()
        await page.get_by_role("button", name="Go to the question").click()
        await expect(page.get_by_role("button", name="Yes")).to_be_focused()
        await expect(page.get_by_role("button", name="Yes")).to_be_in_viewport()
        await page.get_by_role("button", name="Play it again").click()
        await page.get_by_role("button", name="Yes").click()
        await expect_verdict(page, "good", "All good")
        await expect(page.get_by_role("button", name="Go to the question")).to_be_hidden()
        await expect_row(page, "level", "ok", "You are heard well")
        assert await page.evaluate("document.getElementById('chime').srcObject") is None, "the microphone is let go"
        assert server.host.sessions == []


async def test_a_server_that_stops_in_the_midst_of_the_test_is_named_and_not_the_network(
    browser: Browser, server: PageServer
) -> None:
    page = await open_page(browser, "about:blank")
    for path in ("**/check/offer", "**/readyz"):
        await page.route(path, lambda route: route.abort())
        await page.goto(f"{server.url}check.html")
        await expect_verdict(page, "bad", "The server is the problem")
    await expect_row(page, "ready", "fail", "It answers no more")
    await expect_row(page, "webrtc", "fail", "answers no more")
    await page.context.close()


async def test_the_report_can_be_copied_and_holds_no_secret(browser: Browser) -> None:
    servers = ("turn:alice:pa55word@nowhere.test:3478",)
    async with page_server(ScriptedHost(), token="s3cret", ice_servers=servers) as server:
        page = await open_page(browser, f"{server.url}check.html#token=s3cret")
        await expect_verdict(page, "good", "The connection is good")
        await expect_row(page, "ice", "note", "no such host")
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy the report").click()
        await expect(page.get_by_text("Copied.")).to_be_visible()
        report = await page.evaluate("navigator.clipboard.readText()")
        assert "[ok] Server" in report
        assert "nowhere.test" in report
        for secret in ("s3cret", "pa55word", "alice"):
            assert secret not in report
        await page.context.close()


async def test_a_refused_microphone_is_the_problem(browser: Browser, server: PageServer) -> None:
    async with checking(browser, server.url, microphone_allowed=False) as page:
        await page.get_by_role("button", name="Test microphone and speaker").click()
        await expect_row(page, "microphone", "fail", "It is blocked for this page")
        await expect(page.locator("[data-check=microphone] .fix")).to_contain_text("allow the microphone")
        await page.get_by_role("button", name="No", exact=True).click()
        await expect_verdict(page, "bad", "The microphone is the problem")
        await expect_row(page, "level", "skip", "Not tested without a microphone")


async def test_a_microphone_that_gives_nothing_is_called_muted(browser: Browser, server: PageServer) -> None:
    async with checking(browser, server.url) as page:
        await page.evaluate(
            """
            const silence = new AudioContext().createMediaStreamDestination();
            navigator.mediaDevices.getUserMedia = async () => silence.stream;
            0;
            """
        )
        await page.get_by_role("button", name="Test microphone and speaker").click()
        await expect_row(page, "level", "fail", "it is muted")


async def test_without_any_microphone_or_udp_each_is_named() -> None:
    policy = "--webrtc-ip-handling-policy=disable_non_proxied_udp"
    async with (
        chromium(device=False, flags=(policy,)) as browser,
        page_server(ScriptedHost()) as server,
        checking(browser, server.url) as page,
    ):
        await expect_verdict(page, "note", "Calls will work, with sound over WebSocket")
        await expect_row(page, "webrtc", "fail", "offers no way for UDP")
        await page.get_by_role("button", name="Test microphone and speaker").click()
        await expect_row(page, "microphone", "fail", "None was found")


def cut_off(address: str) -> object:
    async def answer(route: Route) -> None:
        """Neither side learns an address at which the other can be reached."""
        offer = route.request.post_data_json
        offer["sdp"] = "".join(line for line in offer["sdp"].splitlines(True) if not line.startswith("a=candidate"))
        url = route.request.url.replace("parley.test", "127.0.0.1")  # a name that only the browser knows
        response = await route.fetch(url=url, post_data=json.dumps(offer))
        told = await response.json()
        told["sdp"] = told["sdp"].replace(" 127.0.0.1 ", f" {address} ")
        await route.fulfill(response=response, json=told)

    return answer


async def test_blocked_udp_is_told_with_its_likeliest_reason(browser: Browser) -> None:
    async with page_server(ScriptedHost()) as probe:
        port = int(probe.url.rstrip("/").rpartition(":")[2])
    named = f"http://parley.test:{port}/"
    async with page_server(ScriptedHost(), port, connect_timeout_s=1, allowed_origins=(named,)) as server:
        for url, reason in (
            (server.url, "The page comes from 127.0.0.1"),  # a tunnel
            (named, "the browser hides this device’s address"),
        ):
            page = await open_page(browser, "about:blank", microphone_allowed=False)
            await page.route("**/check/offer", cut_off("192.0.2.1"))
            await page.goto(f"{url}check.html")
            await expect_row(page, "webrtc", "fail", reason)
            if url == server.url:
                await expect_verdict(page, "note", "Calls will work, with sound over WebSocket")
            else:
                await expect_verdict(page, "bad", "This address is the problem")
                await expect_row(page, "secure", "fail", "neither https nor localhost")
                await page.get_by_role("button", name="Copy the report").click()
                await expect(page.get_by_label("Report")).to_be_visible()
            await page.context.close()


@pytest.mark.skipif(not coturn.INSTALLED, reason="coturn is not installed")
async def test_each_turn_server_is_tried_and_its_fault_named(browser: Browser) -> None:
    servers = (
        "turn:alice:right@127.0.0.1:34789",
        "turn:alice:wrong@127.0.0.1:34789",
        "stun:nowhere.test:3478",
    )
    async with (
        coturn.turn_server(34789),
        page_server(ScriptedHost(), ice_servers=servers) as server,
        checking(browser, server.url) as page,
    ):
        await expect_row(page, "ice", "note", "2 of 3 do not help")
        lines = page.locator("[data-check=ice] .lines li")
        await expect(lines.nth(0)).to_have_text("turn:127.0.0.1:34789 relays.")
        await expect(lines.nth(1)).to_contain_text("does not take the name and password")
        await expect(lines.nth(2)).to_contain_text("no such host")


async def test_a_server_that_wants_a_token_or_is_gone_and_a_speaker_unheard_are_named(browser: Browser) -> None:
    async with page_server(ScriptedHost(), token="s3cret") as server:
        page = await open_page(browser, f"{server.url}check.html")
        await expect_verdict(page, "bad", "The token is missing")
        await page.get_by_label("Access token").fill("s3cret")
        await page.get_by_role("button", name="Connect").click()
        await expect_verdict(page, "good", "The connection is good")
        await expect_row(page, "socket", "ok", "The spare way is open")
        call = await open_page(browser, f"{server.url}#token=s3cret")
        await call.evaluate("document.getElementById('way').hidden = false")
        async with call.expect_popup() as popup:
            await call.locator("#way a").click()
        await expect_verdict(await popup.value, "good", "The connection is good")
        assert "s3cret" not in (await popup.value).url
        await call.context.close()
        await page.get_by_role("button", name="Test microphone and speaker").click()
        await page.get_by_role("button", name="No", exact=True).click()
        await expect_verdict(page, "bad", "The speaker is the problem")
    await page.get_by_role("button", name="Run again").click()
    await expect_row(page, "server", "fail", "It does not answer")
    await expect_row(page, "webrtc", "skip", "Not tested without the server")
    await expect_verdict(page, "bad", "The server is the problem")
    await page.context.close()


async def test_a_part_that_is_still_loading_is_named(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, "about:blank")
    stages = {"status": "not_ready", "stages": {"VAD": True, "LLM": False}}
    await page.route("**/readyz", lambda route: route.fulfill(status=503, json=stages))
    await page.goto(f"{server.url}check.html")
    await expect_verdict(page, "bad", "The server is not ready yet")
    await expect_row(page, "ready", "fail", "Not ready: LLM.")
    await page.context.close()


async def test_the_self_test_speaks_both_languages_and_fits_a_phone(browser: Browser, server: PageServer) -> None:
    async with checking(browser, server.url, locale="zh-CN", viewport={"width": 360, "height": 740}) as page:
        await expect_verdict(page, "good", "连接正常")
        await page.get_by_text("详情").first.click()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.get_by_label("语言").select_option("en")
        await expect_verdict(page, "good", "The connection is good")
        keys, missing = await page.evaluate(
            """import('./js/strings/check.js').then(({ en, zh }) =>
            [Object.keys(en).length, Object.keys(en).filter((key) => !(key in zh)).concat(Object.keys(zh).filter((key) => !(key in en)))])"""
        )
        assert keys > 100
        assert missing == []


async def test_a_server_of_the_list_that_the_browser_does_not_take_spoils_neither_test_nor_call(
    browser: Browser, server: PageServer
) -> None:
    async def spoil(route: Route) -> None:
        response = await route.fetch()
        config = await response.json()
        await route.fulfill(response=response, json=config | {"ice_servers": [{"urls": "turn:nonsense:port"}]})

    page = await open_page(browser, "about:blank")
    await page.route("**/config.json", spoil)
    await page.goto(f"{server.url}check.html")
    await expect_verdict(page, "note", "Calls will work, with sound over WebSocket")
    await expect_row(page, "webrtc", "fail", "does not take the configured STUN and TURN servers")
    await expect_row(page, "ice", "fail", "turn:nonsense:port is not taken by this browser")
    await page.goto(server.url)
    await page.get_by_role("button", name="Talk", exact=True).click()
    await expect(page.get_by_text("Sound over WebSocket")).to_be_visible()
    await page.context.close()
