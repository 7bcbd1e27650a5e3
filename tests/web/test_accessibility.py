"""No state of the page has a serious or critical finding of axe-core, contrast of colours included."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.kit.axe import findings
from tests.kit.page_server import PageServer
from tests.kit.page_states import STATES, PageState, open_state

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

_DESKTOP = {"width": 1280, "height": 800}
_PHONE = {"width": 360, "height": 740}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_anyone_can_use_the_page(browser: Browser, server: PageServer, state: PageState) -> None:
    page = await open_state(browser, server, state, viewport=_DESKTOP, color_scheme="light")
    found = {"light, desktop": await findings(page)}
    await page.set_viewport_size(_PHONE)
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found["dark, phone"] = await findings(page)
    await page.context.close()
    assert not any(found.values()), found
