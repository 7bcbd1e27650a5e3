"""Screenshots of every state of the page: phone and desktop, light and dark, English and Chinese.

The server is scripted and the microphone silent, so that they are the same each time::

    python -m scripts.screenshots                 # all of them, into build/screenshots
    python -m scripts.screenshots --only speaking --language en
    python -m scripts.screenshots --readme        # docs/page.png and docs/page-phone.png

It needs the development extra and Debian's chromium; Chinese wants a font, such as fonts-noto-cjk.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from pathlib import Path

import numpy as np
from playwright.async_api import Browser

from app.audio import write_wav
from tests.kit.browser import chromium, loopback_media
from tests.kit.page_server import PageServer, page_server
from tests.kit.page_states import LOCALES, SERVER, STATES, PageState, open_scene, problem_states
from tests.kit.scripted_session import ScriptedHost

SIZES = {"desktop": (1280, 800), "phone": (360, 740)}
README = (("page", "where_the_time_went", "desktop", "light"), ("page-phone", "speaking", "phone", "dark"))
SCHEMES = ("light", "dark")
SETTLE_MS = 400  # fonts, the canvas, and a scroll to the end


async def shoot(
    browser: Browser,
    server: PageServer,
    state: PageState,
    tongue: str,
    size: str,
    paths: dict[str, Path],
    scale: float = 2,
) -> None:
    """``state`` in the colour schemes of ``paths``, with ``scale`` points of the picture for one of the page."""
    width, height = SIZES[size]
    scene = await open_scene(
        browser, server, state, tongue=tongue,
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        has_touch=size == "phone",
        is_mobile=size == "phone",
    )  # fmt: skip
    await state.reach(scene)
    page = scene.page
    await page.mouse.move(0, 0)  # what was clicked is not shown as hovered
    for scheme, path in paths.items():
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        await page.wait_for_timeout(SETTLE_MS)
        await page.screenshot(path=path, animations="disabled", caret="hide", timeout=60_000)
        print(path)
    await page.context.close()


async def shoot_readme(browser: Browser) -> None:
    docs = Path(__file__).parents[1] / "docs"
    for name, wanted, size, scheme in README:
        (state,) = (state for state in STATES if state.name == wanted)
        async with page_server(ScriptedHost(), **SERVER) as server:
            scale = 1.1 if size == "desktop" else 2  # neither file is to be larger than 300 kB
            await shoot(browser, server, state, "en", size, {scheme: docs / f"{name}.png"}, scale)


async def main() -> None:
    every = [*STATES, *problem_states()]
    parser = argparse.ArgumentParser(description="Screenshots of every state of the page.")
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"), help="folder (default: %(default)s)")
    parser.add_argument("--only", choices=[state.name for state in every], nargs="+", help="these states")
    parser.add_argument("--size", choices=SIZES, nargs="+", default=list(SIZES))
    parser.add_argument("--language", choices=LOCALES, nargs="+", default=list(LOCALES))
    parser.add_argument("--readme", action="store_true", help="the two pictures of the README, into docs")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    states = [state for state in every if not chosen.only or state.name in chosen.only]
    with tempfile.TemporaryDirectory() as folder, loopback_media():
        silence = Path(folder) / "silence.wav"
        write_wav(silence, np.zeros(48_000, np.int16), 48_000)
        async with chromium(microphone=silence, loop_file=True) as browser:
            if chosen.readme:
                await shoot_readme(browser)
                return
            for state, size, tongue in itertools.product(states, chosen.size, chosen.language):
                async with page_server(ScriptedHost(), **SERVER) as server:
                    names = {scheme: f"{state.name}-{size}-{scheme}-{tongue}.png" for scheme in SCHEMES}
                    paths = {scheme: chosen.out / name for scheme, name in names.items()}
                    await shoot(browser, server, state, tongue, size, paths)


if __name__ == "__main__":
    asyncio.run(main())
