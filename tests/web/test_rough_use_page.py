"""The page in rough hands: double clicks, keys alone, refreshes on refreshes, no storage, text from right to left."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.kit.browser import open_page, page_errors
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost, ScriptedSession

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def phase(page: Page, name: str) -> None:
    await expect(page.locator("body")).to_have_attribute("data-phase", name)


async def talk(page: Page, server: PageServer) -> ScriptedSession:
    await page.locator("#talk").click()
    await phase(page, "call")
    return await server.session()


async def lost_for_now(page: Page, server: PageServer, session: ScriptedSession) -> None:
    """The connection is gone, and so is the way to a new one."""
    await page.route("**/config.json", lambda route: None)
    await server.host.lose(session)
    await phase(page, "reconnecting")


async def test_a_double_click_begins_one_call_and_ends_one(page: Page, server: PageServer) -> None:
    await page.locator("#talk").dblclick()
    await phase(page, "call")
    await page.locator("#talk").dblclick()
    await phase(page, "ended")
    await page.wait_for_timeout(100)
    await phase(page, "ended")
    assert len(server.host.sessions) == 1


async def test_a_held_key_begins_one_call(page: Page, server: PageServer) -> None:
    await page.locator("#talk").focus()
    for _ in range(4):
        await page.keyboard.down("Enter")  # again and again without a way up: it repeats
    await page.keyboard.up("Enter")
    await phase(page, "call")
    assert len(server.host.sessions) == 1


async def test_who_is_muted_stays_so_over_a_refresh(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await page.get_by_role("button", name="Mute the microphone").click()
    await page.reload()
    await phase(page, "call")
    await expect(page.locator("#state")).to_have_text("Paused")
    session.loudest = 0
    await asyncio.sleep(1.2)  # The microphone beeps once a second.
    assert session.loudest < 100
    await page.get_by_role("button", name="Unmute the microphone").click()
    await expect(page.locator("#state")).to_have_text("Listening")


async def test_a_refresh_while_a_call_is_taken_up_loses_nothing(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    answered = asyncio.Event()

    async def unfinished(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | {"sdp": "v=0\r\n"})
        answered.set()

    never = "RTCPeerConnection.prototype.setRemoteDescription = () => new Promise(() => {})"
    await page.add_init_script(f"if (sessionStorage.getItem('parley.call')) {never}")
    await page.route("**/offer", unfinished)
    await page.reload()
    await asyncio.wait_for(answered.wait(), 5)
    await page.wait_for_timeout(50)
    tab = await page.context.new_page()
    kept = await page.evaluate("sessionStorage.getItem('parley.call')")
    await page.reload()
    await page.close()
    assert session.close_reason is None
    await tab.goto(server.url)
    await tab.evaluate("(kept) => sessionStorage.setItem('parley.call', kept)", kept)
    await tab.reload()
    await phase(tab, "call")
    assert server.host.sessions == [session]
    await tab.close()


async def test_ending_a_call_that_is_away_frees_its_place(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await lost_for_now(page, server, session)
    await page.get_by_role("button", name="End", exact=True).click()
    await phase(page, "ended")
    await asyncio.wait_for(session.wait_closed(), 5)


async def test_a_new_call_takes_the_place_of_the_one_that_waits(page: Page, server: PageServer) -> None:
    server.host.limit = 1
    session = await talk(page, server)
    await page.add_init_script("navigator.permissions.query = async () => ({ state: 'prompt' })")
    await page.reload()
    await phase(page, "left")
    await page.get_by_role("button", name="Begin a new call").click()
    await phase(page, "call")
    assert session.close_reason == "hung_up"
    assert server.host.active == 1


async def test_going_on_can_be_put_off(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    await page.add_init_script("navigator.permissions.query = async () => ({ state: 'prompt' })")
    await page.reload()
    await page.evaluate("navigator.mediaDevices.getUserMedia = () => new Promise(() => {}); 0")
    await page.get_by_role("button", name="Continue").click()
    await phase(page, "permission")
    await page.get_by_role("button", name="Cancel").click()
    await phase(page, "left")
    assert session.close_reason is None


async def test_a_cancelled_try_does_not_go_on_another_way(page: Page, server: PageServer) -> None:
    await page.evaluate(
        "RTCPeerConnection.prototype.setLocalDescription = () => new Promise((_, no) => (window.fail = no)); 0"
    )
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    await page.locator("#talk").click()
    async with asyncio.timeout(5):
        while not await page.evaluate("'fail' in window"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await page.get_by_role("button", name="Cancel").click()
    await page.evaluate("window.fail(new Error('no'))")
    await page.wait_for_timeout(300)
    assert not sockets, "no WebSocket was tried for a call that nobody wants"
    await phase(page, "idle")


async def test_a_microphone_refused_in_a_call_can_be_tried_again(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, server.url, microphone_allowed=False)
    await page.get_by_label("Type a message").fill("Hello")
    await page.keyboard.press("Enter")
    await phase(page, "call")
    await page.get_by_role("button", name="Turn the microphone on").click()
    await expect(page.locator("#problem")).to_have_attribute("data-code", "microphone_denied")
    await page.context.grant_permissions(["microphone"])
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator("#state")).to_have_text("Listening")
    await expect(page.locator("#problem")).to_be_hidden()
    assert page_errors(page) == []
    await page.context.close()


async def test_the_printed_address_opened_in_the_same_tab_is_enough(browser: Browser) -> None:
    async with page_server(ScriptedHost(), token="s3cret") as server:
        page = await open_page(browser, server.url)
        await page.locator("#talk").click()
        await expect(page.locator("#problem")).to_have_attribute("data-code", "wrong_token")
        await page.evaluate("location.hash = 'token=s3cret'")  # as the address bar does: nothing is loaded again
        await phase(page, "call")
        assert page.url == server.url
        await page.context.close()


async def test_the_keyboard_stays_where_it_can_go_on(page: Page, server: PageServer) -> None:
    focused = page.locator(":focus")
    server.host.limit = 0
    await page.locator("#talk").focus()
    await page.keyboard.press("Enter")
    await phase(page, "full")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    server.host.limit = 8
    await page.get_by_role("button", name="Try again").focus()
    await page.keyboard.press("Enter")
    await phase(page, "call")
    await expect(focused).to_have_id("talk")
    session = await server.session()
    await page.locator("#mute").focus()
    await session.close("goodbye")
    await phase(page, "ended")
    await expect(focused).to_have_id("talk")


async def test_what_was_typed_into_a_call_that_never_was_stays_out_of_the_next(page: Page, server: PageServer) -> None:
    await page.route("**/offer", lambda route: None)
    await page.get_by_label("Type a message").fill("Forget this")
    await page.keyboard.press("Enter")
    await phase(page, "connecting")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".item.user")).to_contain_text("not delivered")
    await page.unroute("**/offer")
    session = await talk(page, server)
    await server.host.lose(session)
    await phase(page, "call")
    async with asyncio.timeout(5):
        while session.left:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await page.get_by_label("Type a message").fill("But this")
    await page.keyboard.press("Enter")
    async with asyncio.timeout(5):
        while not session.received:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    said = [event["item"]["content"][0]["text"] for event in session.received if "item" in event]
    assert said == ["But this"]


async def test_sound_that_the_system_halted_goes_on(page: Page, server: PageServer) -> None:
    await talk(page, server)
    voice = page.locator("#voice")
    await expect(voice).to_have_js_property("paused", False)
    await page.evaluate("document.getElementById('voice').pause()")
    await expect(voice).to_have_js_property("paused", False)
    await page.locator("#talk").click()
    await phase(page, "ended")


async def test_without_storage_a_call_works_and_nothing_fails(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, "about:blank")
    await page.add_init_script(
        """
        for (const name of ["localStorage", "sessionStorage"]) {
          Object.defineProperty(window, name, { get() { throw new DOMException("no", "SecurityError"); } });
        }
        """
    )
    await page.goto(server.url)
    session = await talk(page, server)
    await page.locator("#language").select_option("zh")
    await expect(page.locator("#state")).to_have_text("正在聆听")
    await server.host.lose(session)
    async with asyncio.timeout(5):
        while session.left:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await phase(page, "call")
    assert server.host.sessions == [session], "a lost connection needs no storage"
    await page.locator("#talk").click()
    await phase(page, "ended")
    assert page_errors(page) == []
    await page.context.close()


async def test_what_is_said_is_text_in_its_own_direction_and_never_markup(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    session.user_says("u1", "مرحبا، كيف حالك؟")
    session.user_says("u2", evil)
    session.reply("r1", evil, " W" + "o" * 400, heard=9)
    session.send("parley.notice", code="x", text=evil + "x" * 300)
    await expect(page.locator(".notice")).to_contain_text("<script>")
    assert await page.locator("#transcript :is(img, script)").count() == 0
    assert await page.title() == "Parley"
    directions = await page.locator(".user .said").evaluate_all(
        "(all) => all.map((p) => getComputedStyle(p).direction)"
    )
    assert directions == ["rtl", "ltr"]
    assert await page.locator("#scroller").evaluate("(el) => el.scrollWidth <= el.clientWidth")


async def test_calls_in_a_row_leave_no_sound_connection_or_timer_behind(browser: Browser, server: PageServer) -> None:
    page = await open_page(browser, "about:blank")
    await page.add_init_script(
        """
        const [contexts, peers, timers] = [[], [], new Set()];
        const noted = (what, all) => class extends what {
          constructor(...given) {
            super(...given);
            all.push(new WeakRef(this));
          }
        };
        window.AudioContext = noted(AudioContext, contexts);
        window.RTCPeerConnection = noted(RTCPeerConnection, peers);
        const [every, no] = [setInterval, clearInterval];
        window.setInterval = (...given) => {
          const id = every(...given);
          timers.add(id);
          return id;
        };
        window.clearInterval = (id) => {
          timers.delete(id);
          no(id);
        };
        window.left_ = () => ({
          contexts: contexts.filter((ref) => (ref.deref()?.state ?? "closed") !== "closed").length,
          peers: peers.filter((ref) => (ref.deref()?.connectionState ?? "closed") !== "closed").length,
          timers: timers.size,
          begun: contexts.length + peers.length,
        });
        """
    )
    await page.goto(server.url)
    for _ in range(3):
        await talk(page, server)
        await page.locator("#talk").click()
        await phase(page, "ended")
    left: dict[str, int] = await page.evaluate("left_()")
    assert left.pop("begun") >= 6
    async with asyncio.timeout(5):
        while any(left.values()):
            await asyncio.sleep(0.05)
            left = {name: count for name, count in (await page.evaluate("left_()")).items() if name != "begun"}
    assert page_errors(page) == []
    await page.context.close()


async def test_a_problem_can_be_read_and_left_on_the_smallest_screen(page: Page, server: PageServer) -> None:
    server.host.limit = 0
    for width, height in ((568, 320), (320, 568), (640, 360)):  # a phone on its side, an old one, a desktop at 200 %
        await page.set_viewport_size({"width": width, "height": height})
        await page.locator("#talk").click()
        await expect(page.locator("#problem")).to_be_visible()
        await page.get_by_role("button", name="Dismiss").scroll_into_view_if_needed()
        await page.mouse.wheel(0, 1000)
        await expect(page.get_by_role("button", name="Dismiss")).to_be_in_viewport(ratio=1)
        await expect(page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
        await page.get_by_role("button", name="Dismiss").click()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_reply_that_is_over_is_no_heap_of_words(page: Page, server: PageServer) -> None:
    session = await talk(page, server)
    session.reply("r1", "One two three.", heard=7)
    await expect(page.locator(".parley .word")).to_have_count(5)
    session.reply_over("r1", "One two three.")
    await expect(page.locator(".parley .word")).to_have_count(1)
    session.reply("r1", "One two three four.", heard=7)  # taken up again after all
    await expect(page.locator(".parley .said")).to_have_text("One two three four.")
    await expect(page.locator(".parley .heard")).to_have_text(["One", " ", "two"])
