"""Where the time of a turn went, as the page shows it; and turns saved as files."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.kit.browser import open_page
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPANS = {
    "endpoint": [0, 400],
    "asr": [130, 300],
    "queue": [400, 410],
    "prefill": [410, 450],
    "llm_first_token": [400, 480],
    "first_clause": [480, 560],
    "tts_first_audio": [560, 690],
    "playout": [690, 700],
}


async def talk(page: Page, server: PageServer) -> ScriptedSession:
    await page.get_by_role("button", name="Talk", exact=True).click()
    await expect(page.locator("body")).to_have_attribute("data-phase", "call")
    return await server.session()


def answer(session: ScriptedSession, response_id: str, spans: dict[str, list[float]], **more: object) -> None:
    session.reply(response_id, "Hello.", heard=6)
    session.reply_over(response_id, "Hello.")
    fields = {"timings_ms": {"voice_to_voice": 700}, "early": {"ms": 0, "wasted_tokens": 0}, "usage": None, **more}
    session.send("parley.turn", item_id="u", response_id=response_id, spans_ms=spans, **fields)


async def rows(page: Page) -> dict[str, int]:
    """Stage -> ms, as the first waterfall shows them."""
    lines = await page.locator(".waterfall").first.locator("tbody tr").all()
    shown = {}
    for line in lines:
        took = re.match(r"\d+", await line.locator(".took").inner_text())
        assert took is not None
        shown[str(await line.get_attribute("data-stage"))] = int(took[0])
    return shown


async def test_a_turn_shows_on_demand_where_its_time_went_up_to_the_ear(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.play_tone(440, seconds=0.5)
    await asyncio.sleep(0.7)  # the browser measures its buffers on what is played
    answer(session, "r1", SPANS, usage={"prompt_tokens": 90, "cached_tokens": 70, "completion_tokens": 5})
    button = page.get_by_role("button", name="Where the time went")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await expect(page.locator(".waterfall")).to_have_count(0)
    await button.click()
    await expect(button).to_have_attribute("aria-expanded", "true")
    await expect(page.locator(".waterfall tr[data-stage=ear]")).to_be_visible()
    shown = await rows(page)
    assert list(shown) == ["network_up", *SPANS, "network_down", "ear"]
    assert shown["prefill"] == 40
    assert shown["llm_first_token"] == 30, "waiting and reading are shown for themselves"
    assert shown["network_up"] == shown["network_down"]
    total = re.match(r"([\d.]+) s from the end of your words", await page.locator(".waterfall caption").inner_text())
    assert total is not None
    assert float(total[1]) * 1000 == pytest.approx(700 + 2 * shown["network_up"] + shown["ear"], abs=12)
    await expect(page.locator(".notes")).to_contain_text("90 tokens read, 70 of them known already; 5 written")
    await expect(page.get_by_role("rowheader", name="recognition")).to_be_visible()
    bars = [await bar.bounding_box() for bar in await page.locator(".waterfall .bar").all()]
    lefts = [bar["x"] for bar in bars if bar]
    assert len(lefts) == len(shown)
    assert lefts[1] < lefts[2], "recognition begins within the pause"
    assert lefts[3:] == sorted(lefts[3:])
    await button.click()
    await expect(page.locator(".waterfall")).to_be_hidden()
    # At the transcript's end too what was opened stays in sight, and what opened it.
    session.reply("r2", "A long story. " * 60, heard=5)
    session.reply_over("r2", "A lon")
    answer(session, "r3", SPANS)
    await expect(button).to_have_count(2)
    await button.last.click()
    await page.wait_for_timeout(100)  # the transcript follows a change of size one frame later
    await expect(button.last).to_be_in_viewport(ratio=1)
    await expect(page.locator(".waterfall tr[data-stage=endpoint]").last).to_be_in_viewport(ratio=1)
    pill, panel = await button.last.bounding_box(), await page.locator(".panel").last.bounding_box()
    said = await page.locator(".parley .said").nth(1).bounding_box()
    assert pill is not None
    assert panel is not None
    assert said is not None
    assert panel["y"] >= pill["y"] + pill["height"], "it opens below the button, which stays in its row"
    assert panel["width"] >= said["width"]


async def test_the_figures_of_the_call_are_those_of_its_answers(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await expect(page.locator("#figures")).to_be_hidden()
    await page.evaluate("import('./js/preferences.js').then(({ preferences }) => preferences.set('waterfall', true))")
    for number, end in enumerate((600, 700, 1900), 1):
        answer(session, f"r{number}", {"endpoint": [0, 300], "playout": [300, end]})
    session.reply("r4", "One two three", heard=3)
    session.reply_over("r4", "One", status="cancelled")
    session.reply("r5", "Typed.")
    session.reply_over("r5", "Typed.")
    typed = {"llm_first_token": [0, 9_000], "playout": [9_000, 9_010]}
    session.send("parley.turn", item_id="u", response_id="r5", timings_ms={}, spans_ms=typed)
    figures = page.locator("#figures")
    await expect(figures).to_contain_text("interrupted1")
    await expect(figures).to_contain_text("spoken turns3")
    shown = re.findall(r"(?:usually|seldom over) \(p\d+\)([\d.]+) s", await figures.text_content() or "")
    assert len(shown) == 2
    usual, worst = map(float, shown)
    assert 0.7 <= usual < worst, "with what the network adds, which differs"
    assert 1.9 <= worst < 9, "what was typed does not count"
    await expect(figures).to_contain_text("overWebRTC")
    await expect(page.locator(".waterfall")).to_have_count(4)
    await expect(page.get_by_role("button", name="Where the time went")).to_have_count(0)
    await page.evaluate("import('./js/preferences.js').then(({ preferences }) => preferences.set('waterfall', false))")
    await expect(page.locator(".waterfall").first).to_be_hidden()
    await expect(figures).to_be_hidden()


async def test_a_server_that_tells_lengths_alone_and_a_typed_turn_are_drawn_too(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    timings = {"endpoint": 400, "asr": 200, "llm_first_token": 100, "first_clause": 50, "tts_first_audio": 80}
    session.reply("r1", "Hello.", heard=6)
    session.reply_over("r1", "Hello.")
    session.turn("r1", **timings, playout=20, voice_to_voice=660)
    await page.get_by_role("button", name="Where the time went").click()
    shown = await rows(page)
    assert {name: shown[name] for name in timings} == timings
    session.reply("r2", "Hi.")
    session.reply_over("r2", "Hi.")
    session.send("parley.turn", item_id="u", response_id="r2", timings_ms={}, spans_ms={"llm_first_token": [0, 90]})
    await page.get_by_role("button", name="Where the time went").nth(1).click()
    await expect(page.locator(".waterfall caption").nth(1)).to_contain_text("from your message")
    session.reply("r3", "Without timings.")
    session.send("parley.turn", item_id="u", response_id="r3", timings_ms={}, usage=None)
    await expect(page.get_by_role("button", name="Where the time went")).to_have_count(2)


async def test_a_turn_is_saved_with_the_calls_own_token_and_refusals_are_told(page: Page, server: PageServer) -> None:
    asked: list[dict[str, str]] = []
    answers = iter(("zip", "gone", "down"))

    async def turns(route: Route) -> None:
        asked.append(route.request.headers)
        match next(answers):
            case "zip":
                await route.fulfill(body=b"PK\x03\x04", content_type="application/zip")
            case "gone":
                error = {"type": "invalid_request_error", "code": "turn_not_kept", "message": "x"}
                await route.fulfill(status=404, json={"error": error})
            case _:
                await route.abort()

    await page.route("**/sessions/turns/r1.zip", turns)
    session = await talk(page, server)
    answer(session, "r1", SPANS)
    await page.context.grant_permissions(["microphone", "clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Where the time went").click()
    save = page.get_by_role("button", name="Save this turn")
    async with page.expect_download() as download:
        await save.click()
    name = (await download.value).suggested_filename
    assert re.fullmatch(r"parley-turn-\d{4}-\d\d-\d\d-\d{6}\.zip", name)
    await expect(page.locator(".saving code")).to_have_text(f"python -m app replay {name}")
    await page.locator(".saving .copy").click()
    await expect(page.locator(".saving .copy")).to_have_attribute("data-done", "yes")
    assert await page.evaluate("navigator.clipboard.readText()") == f"python -m app replay {name}"
    assert asked[0]["x-resume-token"] == session.resume_token
    await page.get_by_role("button", name="End", exact=True).click()  # the server keeps turns beyond the call
    await save.click()
    await expect(page.locator(".saving p")).to_contain_text("no longer has this turn")
    assert asked[1]["x-resume-token"] == session.resume_token
    await save.click()
    await expect(page.locator(".saving p")).to_contain_text("Check that Parley is running")


async def test_the_waterfall_speaks_chinese_and_fits_a_phone(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, locale="zh-CN", viewport={"width": 360, "height": 740})
    await page.locator("#talk").click()
    session = await server.session()
    answer(session, "r1", SPANS)
    await expect(page.locator(".parley .total")).to_have_text("0.70 秒后回答")
    await page.get_by_role("button", name="时间花在哪里").click()
    await expect(page.get_by_role("rowheader", name="识别")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    box = await page.locator(".waterfall").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360
    missing = await page.evaluate(
        """import('./js/strings/latency.js').then(({ en, zh }) =>
        Object.keys(en).filter((key) => !zh[key]).concat(Object.keys(zh).filter((key) => !en[key])))"""
    )
    assert missing == []
    await page.context.close()
