"""One page for test after test, as good as new each time: a profile of its own costs three times as much as a visit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Page

from tests.kit.browser import page_errors


class KeptPage:
    """``open`` makes the page in a profile (context) of its own, without going anywhere."""

    def __init__(self, open: Callable[[], Awaitable[Page]]) -> None:
        self._open = open
        self._page: Page | None = None
        self._taken = False

    async def visit(self, url: str) -> Page:
        """The page at ``url``, with nothing stored, routed, denied or said before."""
        page = self._page or await self._new()
        page_errors(page).clear()
        await page.goto(url)
        return page

    async def leave(self, url: str) -> None:
        """Make the page ready for another visit to the server of ``url``; throws away one that cannot be."""
        page = self._page
        if page is None:
            return
        if self._taken or page.is_closed():
            await self.close()
            return
        await page.unroute_all(behavior="ignoreErrors")
        await page.goto(url + "favicon.svg")  # which has the storage of the page, and runs nothing
        await page.evaluate("localStorage.clear(); sessionStorage.clear(); 0")
        await page.context.grant_permissions(["microphone"])
        await page.emulate_media(reduced_motion="reduce", color_scheme="light", forced_colors="none")
        await page.set_viewport_size(self._size)

    async def close(self) -> None:
        page, self._page = self._page, None
        if page is not None:
            await page.context.close()

    async def _new(self) -> Page:
        page = self._page = await self._open()
        self._size = page.viewport_size or {"width": 1280, "height": 720}
        self._taken = False
        add, install = page.add_init_script, page.clock.install

        async def add_init_script(*args: Any, **kwargs: Any) -> Any:
            self._taken = True  # Nothing takes a script back.
            return await add(*args, **kwargs)

        async def install_clock(*args: Any, **kwargs: Any) -> Any:
            self._taken = True
            return await install(*args, **kwargs)

        setattr(page, "add_init_script", add_init_script)  # noqa: B010
        setattr(page.clock, "install", install_clock)  # noqa: B010
        return page
