"""A call through a TURN relay, with the credentials of the configuration and with no others."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, expect

from tests.kit import coturn
from tests.kit.browser import open_page
from tests.kit.page_server import page_server
from tests.kit.scripted_session import ScriptedHost

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not coturn.INSTALLED, reason="coturn is not installed"),
]

_PORT = 34790

# As behind a firewall that lets nothing through but the relay.
_ONLY_RELAYED = """
window.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(options) {
    super({ ...options, iceTransportPolicy: "relay" });
  }
};
"""


@pytest.mark.parametrize(("password", "transport"), [("right", "webrtc"), ("wrong", "websocket")])
async def test_a_relay_carries_the_call_if_its_password_is_right(
    browser: Browser, password: str, transport: str
) -> None:
    servers = (f"turn:alice:{password}@127.0.0.1:{_PORT}",)
    async with coturn.turn_server(_PORT), page_server(ScriptedHost(), ice_servers=servers) as server:
        page = await open_page(browser, "about:blank")
        await page.add_init_script(_ONLY_RELAYED)
        await page.goto(server.url)
        await page.locator("#talk").click()
        await expect(page.locator("body")).to_have_attribute("data-phase", "call", timeout=15_000)
        session = server.host.sessions[-1]
        async with asyncio.timeout(8):
            while session.frames < 30 or session.loudest < 1000:  # noqa: ASYNC110 - the browser's beep comes in
                await asyncio.sleep(0.02)
        session.user_says("u1", "Hello.")
        await expect(page.locator(".user .said")).to_have_text("Hello.")
        await expect(page.locator("#way")).to_be_visible(visible=transport == "websocket")
        await page.context.close()
