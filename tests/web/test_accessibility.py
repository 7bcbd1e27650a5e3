"""No state of the page has a serious or critical finding of axe-core, contrast of colours included."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.kit.axe import findings
from tests.kit.kept_page import KeptPage
from tests.kit.page_server import PageServer, page_server
from tests.kit.page_states import SERVER, STATES, WORDS, Scene, empty_page, open_scene, problem_codes, show_problems
from tests.kit.scripted_session import ScriptedHost

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

_DESKTOP = {"width": 1280, "height": 800}
_PHONE = {"width": 360, "height": 740}
_WALKS = [
    ("idle", "keys"),
    ("settings", "settings_further_down"),
    ("listening", "muted"),
    ("waterfall", "download_menu"),
    (
        "where_the_time_went",
        "hearing",
        "thinking",
        "speaking",
        "trouble_in_a_call",
        "recording",
        "recorded",
        "reconnecting",
    ),
    ("capacity_full", "waiting_for_a_line"),
    ("ended", "called_again"),
    ("check_before", "check_asking", "check_after"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server() -> AsyncIterator[PageServer]:
    async with page_server(ScriptedHost(), **SERVER) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_page(browser: Browser) -> AsyncIterator[KeptPage]:
    kept = KeptPage(lambda: empty_page(browser, STATES[0], viewport=_DESKTOP))
    yield kept
    await kept.close()


async def both_ways(page: Page) -> dict[str, list[str]]:
    """What axe finds on the page light and on a desktop, and dark and on a phone."""
    found = {}
    for name, scheme, size in (("light", "light", _DESKTOP), ("dark", "dark", _PHONE)):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.set_viewport_size(size)  # type: ignore[arg-type]
        found[name] = await findings(page)
    return found


def walks() -> list[tuple[str, ...]]:
    """All states, those that can follow each other on one page together: opening a page takes longer than axe does."""
    alone = [
        (name,) for name in (state.name for state in STATES) if name not in {name for walk in _WALKS for name in walk}
    ]
    return [*_WALKS, *alone]


@pytest.mark.parametrize("walk", walks(), ids=lambda walk: walk[0])
async def test_every_state_of_the_page_can_be_used_by_anyone(
    browser: Browser, kept_page: KeptPage, server: PageServer, walk: tuple[str, ...]
) -> None:
    states = {state.name: state for state in STATES}
    first = states[walk[0]]
    usual = first.microphone and not first.path
    if usual:
        scene = Scene(await kept_page.visit(server.url), server, WORDS["en"])
    else:
        scene = await open_scene(browser, server, first, viewport=_DESKTOP)
    found = {}
    for name in walk:
        await states[name].reach(scene)
        found |= {f"{name}, {way}": lines for way, lines in (await both_ways(scene.page)).items()}
    await (kept_page.leave(server.url) if usual else scene.page.context.close())
    assert not any(found.values()), {place: lines for place, lines in found.items() if lines}


async def test_every_problem_can_be_read_by_anyone(browser: Browser, server: PageServer) -> None:
    codes = problem_codes()
    assert len(codes) > 20
    page = (await open_scene(browser, server, STATES[0], viewport=_DESKTOP)).page
    await show_problems(page, codes)
    await expect(page.locator(".problem")).to_have_count(len(codes))
    found = await both_ways(page)
    await page.context.close()
    assert not any(found.values()), found
