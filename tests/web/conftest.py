from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.kit.browser import chromium, loopback_media, open_page, page_errors
from tests.kit.kept_page import KeptPage
from tests.kit.page_server import PageServer, page_server
from tests.kit.scripted_session import ScriptedHost


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A Chromium whose microphone beeps."""
    with loopback_media():
        async with chromium() as browser:
            yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server() -> AsyncIterator[PageServer]:
    async with page_server(ScriptedHost()) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def server(shared_server: PageServer) -> AsyncIterator[PageServer]:
    """One server for the module, without sessions at the start of each test."""
    yield shared_server
    host = shared_server.host
    for session in host.sessions:
        await session.close("test over")
    host.sessions.clear()
    host.limit = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_page(browser: Browser) -> AsyncIterator[KeptPage]:
    async def open_() -> Page:
        page = await open_page(browser, "about:blank")
        page.set_default_timeout(6000)
        return page

    kept = KeptPage(open_)
    yield kept
    await kept.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(kept_page: KeptPage, server: PageServer) -> AsyncIterator[Page]:
    """The page, with the microphone allowed; in the end no script failed and no policy was violated."""
    page = await kept_page.visit(server.url)
    yield page
    await kept_page.leave(server.url)
    assert page_errors(page) == []
