"""A real headless Firefox for tests, on a virtual sound card, driven by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/).

Firefox takes no file as its microphone: it listens to PulseAudio's default source, into which
``VirtualSound.say`` plays, and what the page plays is recorded from the speaker, as a person would hear it::

    async with firefox(sound) as page:
        await page.open(url)
        await page.click("#talk")
        await page.until("document.body.dataset.phase === 'call'")
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.kit.virtual_sound import VirtualSound

EXECUTABLE = shutil.which("firefox-esr") or shutil.which("firefox")

_START_S = 60.0  # the first start of a fresh profile on two busy cores

_PREFERENCES: dict[str, bool | int | str] = {
    "media.navigator.permission.disabled": True,  # the microphone is granted without asking
    "media.peerconnection.ice.loopback": True,  # media flows where there is no other address than 127.0.0.1
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    "ui.prefersReducedMotion": 1,  # without a GPU the animated picture takes most of a core
    "intl.accept_languages": "en-US",
    # Nothing is fetched, reported or asked behind the page's back.
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.systemAddon.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.type": 0,
    "remote.prefs.recommended": True,
    "services.settings.server": "data:,",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "trailhead.firstrun.didSeeAboutWelcome": True,
}


class FirefoxPage:
    """One tab. Selectors are CSS; expressions are JavaScript, promises are awaited."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._tab = ""
        self.errors: list[str] = []
        """Uncaught exceptions and violations of the content security policy so far."""

    async def begin(self) -> None:
        await self.command("session.new", capabilities={})
        await self.command("session.subscribe", events=["log.entryAdded"])
        tree = await self.command("browsingContext.getTree")
        self._tab = tree["contexts"][0]["context"]

    async def listen(self) -> None:
        """Reads the socket until it closes."""
        async for text in self._socket:
            message = json.loads(text)
            if message["type"] == "event":
                entry = message["params"]
                if entry["type"] == "javascript" or "Content-Security-Policy" in (entry["text"] or ""):
                    self.errors += [entry["text"]] if entry["level"] in ("error", "warn") else []
            elif (answer := self._answers.pop(message["id"], None)) and not answer.done():
                answer.set_result(message)

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one BiDi command; its result. Raises RuntimeError with the browser's message."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        async with asyncio.timeout(_START_S):
            message = await answer
        if message["type"] == "error":
            raise RuntimeError(f"{method}: {message['error']}: {message['message']}")
        result: dict[str, Any] = message["result"]
        return result

    async def open(self, url: str) -> None:
        await self.command("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    async def evaluate(self, expression: str) -> Any:
        """The value of ``expression``, which goes through JSON."""
        done = await self.command(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        if done["type"] == "exception":
            raise RuntimeError(done["exceptionDetails"]["text"])
        return json.loads(done["result"]["value"])

    async def until(self, expression: str, timeout_s: float = 10.0) -> None:
        """Wait until ``expression`` is true in the page."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not await self.evaluate(expression):
            if asyncio.get_running_loop().time() > deadline:
                shown = await self.evaluate("document.body.innerText")
                raise AssertionError(f"not within {timeout_s} s: {expression}; the page shows: {shown!r}")
            await asyncio.sleep(0.05)

    async def click(self, selector: str) -> None:
        """A real click of the mouse: a gesture of the user to the browser's policies."""
        x, y = await self.evaluate(
            f"""(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2].map(Math.round); }})()"""
        )
        steps = [
            {"type": "pointerMove", "x": x, "y": y},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        await self._act({"type": "pointer", "id": "mouse", "actions": steps})

    async def type(self, text: str) -> None:
        """Press the keys of ``text`` (``\\n`` is Enter), wherever the focus is."""
        keys = [key.replace("\n", "\ue007") for key in text]
        steps = [{"type": change, "value": key} for key in keys for change in ("keyDown", "keyUp")]
        await self._act({"type": "key", "id": "keyboard", "actions": steps})

    async def _act(self, source: dict[str, Any]) -> None:
        await self.command("input.performActions", context=self._tab, actions=[source])


@contextlib.asynccontextmanager
async def firefox(sound: VirtualSound, **preferences: bool | int | str) -> AsyncIterator[FirefoxPage]:
    """Start Firefox with an empty profile on ``sound``; ``preferences`` come on top (``__`` stands for a dot).

    Raises FileNotFoundError where Firefox is not installed.
    """
    if EXECUTABLE is None:
        raise FileNotFoundError("firefox-esr")
    with tempfile.TemporaryDirectory(prefix="parley-firefox-", ignore_cleanup_errors=True) as folder:
        profile = Path(folder) / "profile"
        profile.mkdir()
        chosen = _PREFERENCES | {key.replace("__", "."): value for key, value in preferences.items()}
        lines = [f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in chosen.items()]
        (profile / "user.js").write_text("".join(lines))
        # HOME: as root, Firefox refuses to start in the home of somebody else.
        process = await asyncio.create_subprocess_exec(
            EXECUTABLE, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port=0",
            "about:blank",
            env={**sound.env, "HOME": folder, "MOZ_CRASHREPORTER_DISABLE": "1", "LANG": "C.UTF-8"},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with connect(await _address(profile, process), proxy=None, max_size=None) as socket:
                page = FirefoxPage(socket)
                listening = asyncio.create_task(page.listen())
                try:
                    await page.begin()
                    yield page
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)  # with its content processes, which outlive a killed parent for a while
            await process.wait()


async def _address(profile: Path, process: asyncio.subprocess.Process) -> str:
    """Where the browser listens: it writes that into its profile once it does."""
    file = profile / "WebDriverBiDiServer.json"
    async with asyncio.timeout(_START_S):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"Firefox ended at once with exit code {process.returncode}")
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                place = json.loads(file.read_text())
                return f"ws://{place['ws_host']}:{place['ws_port']}/session"
            await asyncio.sleep(0.05)
