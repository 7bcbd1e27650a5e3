"""Every state in which the page can be seen, each reached as a person reaches it, over a scripted server.

They serve the accessibility tests and the screenshots.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, Route, expect

from tests.kit.browser import open_page
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession

LOCALES = {"en": "en-US", "zh": "zh-CN"}

SERVER: dict[str, Any] = {"client_instructions": True, "recording": True}
"""The [server] section that the states want."""

_OFFERED = {
    "voices": ["hibari", "joe"],
    "default_voice": "hibari",
    "language": "en",
    "languages": ["en", "de", "fr", "zh"],
    "client_instructions": True,
    "instructions": "You are a friendly voice assistant. Answer briefly.",
    "recording": True,
}
_STRINGS = Path(__file__).parents[2] / "web" / "js" / "strings"
_NEVER = "navigator.mediaDevices.getUserMedia = () => new Promise(() => {}); 0"
_SPANS_MS = {
    "endpoint": [0.0, 412.0],
    "asr": [36.0, 157.0],
    "queue": [412.0, 415.0],
    "prefill": [415.0, 468.0],
    "llm_first_token": [415.0, 489.0],
    "first_clause": [489.0, 577.0],
    "tts_first_audio": [577.0, 668.0],
    "playout": [668.0, 735.0],
}
_STEPS = ("endpoint", "asr", "llm_first_token", "first_clause", "tts_first_audio")
# What the browser tells of the network, so that pictures are the same each time.
_STEADY_NETWORK = """
let looks = 0;
window.RTCPeerConnection && (RTCPeerConnection.prototype.getStats = async () => {
  looks += 1;
  const sound = { jitterBufferDelay: 0.046 * looks, jitterBufferEmittedCount: looks, packetsReceived: 900, packetsLost: 0 };
  return new Map([
    ["sound", { type: "inbound-rtp", kind: "audio", ...sound }],
    ["pair", { type: "candidate-pair", nominated: true, state: "succeeded", currentRoundTripTime: 0.014 }],
  ]);
});
"""
_TIMINGS_MS = {step: _SPANS_MS[step][1] - _SPANS_MS[step][0] for step in _STEPS} | {"voice_to_voice": 735.0}


def _turn(session: ScriptedSession, response_id: str, scale: float) -> None:
    """Tell the timings of a turn, ``scale`` times as long as the usual one."""
    session.send(
        "parley.turn",
        item_id="u",
        response_id=response_id,
        timings_ms={step: ms * scale for step, ms in _TIMINGS_MS.items()},
        spans_ms={step: [ms * scale for ms in span] for step, span in _SPANS_MS.items()},
        early={"ms": 0.0, "wasted_tokens": 0},
        usage={"prompt_tokens": 182, "cached_tokens": 160, "completion_tokens": 24},
    )


@dataclass(frozen=True, slots=True)
class Words:
    """What is said in the pictures."""

    question: str
    answer: str
    interruption: str
    story: str
    heard_of_story: int
    interrupting: str
    half: str
    last: str
    heard_of_last: int


WORDS = {
    "en": Words(
        question="What’s a good way to start the day?",
        answer="Open a window and drink a glass of water. Then do the one thing you would otherwise put off.",
        interruption="And if I only have ten minutes?",
        story="Then stretch for five of them, and write down three things to do. After that, put on some music, make coffee, and",
        heard_of_story=66,
        interrupting="Wait, which stretches?",
        half="Wait, which",
        last="Two will do: reach for your toes, then turn slowly from side to side. Breathe out as you go down.",
        heard_of_last=46,
    ),
    "zh": Words(
        question="早上怎么开始一天比较好？",
        answer="先打开窗户，喝一杯水。然后做那件你总想往后推的事。",
        interruption="如果只有十分钟呢？",
        story="那就伸展五分钟，再写下今天想完成的三件事。之后可以放点音乐，煮杯咖啡，",
        heard_of_story=21,
        interrupting="等等，怎么伸展？",
        half="等等，怎么",
        last="两个动作就够了：先弯腰够脚尖，再慢慢左右转身。向下时呼气。",
        heard_of_last=15,
    ),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A page on its server, to be brought into a state."""

    page: Page
    server: PageServer
    words: Words

    async def talk(self) -> ScriptedSession:
        """A call: the one that is on, or a new one."""
        if await self.page.evaluate("document.body.dataset.phase") != "call":
            await self.page.locator("#talk").click()
            await self.phase("call")
        return await self.server.session()

    async def phase(self, name: str) -> None:
        await expect(self.page.locator("body")).to_have_attribute("data-phase", name)

    async def state(self, name: str) -> None:
        await expect(self.page.locator("body")).to_have_attribute("data-state", name)

    async def problem(self, code: str) -> None:
        await expect(self.page.locator("#problem")).to_have_attribute("data-code", code)

    async def prefer(self, **preferences: str | bool) -> None:
        await self.page.evaluate(
            """async (wanted) => {
              const { preferences } = await import("/js/preferences.js");
              for (const [key, value] of Object.entries(wanted)) preferences.set(key, value);
            }""",
            preferences,
        )

    async def conversation(self) -> ScriptedSession:
        """A call in which a question was answered, and a longer answer interrupted."""
        session, words = await self.talk(), self.words
        if await self.page.locator(".parley .unheard").count():
            return session
        session.user_says("u1", words.question)
        session.reply("r1", words.answer, heard=len(words.answer))
        session.reply_over("r1", words.answer)
        _turn(session, "r1", 1.0)
        session.user_says("u2", words.interruption)
        session.reply("r2", words.story, heard=words.heard_of_story)
        session.reply_over("r2", words.story[: words.heard_of_story], status="cancelled")
        _turn(session, "r2", 0.93)
        await expect(self.page.locator(".parley .unheard").first).to_be_visible()
        return session


Reach = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PageState:
    name: str
    reach: Reach
    microphone: bool = True
    path: str = ""


STATES: list[PageState] = []


def _state(*, microphone: bool = True, path: str = "") -> Callable[[Reach], Reach]:
    def add(reach: Reach) -> Reach:
        STATES.append(PageState(reach.__name__.strip("_"), reach, microphone, path))
        return reach

    return add


@_state()
async def idle(scene: Scene) -> None:
    await scene.phase("idle")


@_state()
async def permission(scene: Scene) -> None:
    await scene.page.evaluate(_NEVER)
    await scene.page.locator("#talk").click()
    await scene.phase("permission")


@_state()
async def connecting(scene: Scene) -> None:
    await scene.page.route("**/offer", lambda route: None)
    await scene.page.locator("#talk").click()
    await scene.phase("connecting")


@_state()
async def listening(scene: Scene) -> None:
    await scene.talk()
    await scene.state("listening")


@_state()
async def hearing(scene: Scene) -> None:
    session = await scene.conversation()
    session.send("input_audio_buffer.speech_started", item_id="u3", audio_start_ms=0)
    session.send("conversation.item.input_audio_transcription.delta", item_id="u3", delta=scene.words.half)
    session.state("hearing")
    await expect(scene.page.locator(".user .dots")).to_be_visible()
    await scene.state("hearing")


@_state()
async def thinking(scene: Scene) -> None:
    session = await scene.conversation()
    session.user_says("u3", scene.words.interrupting)
    session.state("thinking")
    await scene.state("thinking")


@_state()
async def speaking(scene: Scene) -> None:
    session = await scene.conversation()
    session.user_says("u3", scene.words.interrupting)
    session.reply("r3", scene.words.last, heard=scene.words.heard_of_last)
    await scene.state("speaking")
    await expect(scene.page.locator(".parley").last.locator(".heard").first).to_be_visible()


@_state()
async def muted(scene: Scene) -> None:
    await scene.talk()
    await scene.page.locator("#mute").click()
    await scene.state("muted")


@_state()
async def typed(scene: Scene) -> None:
    """A call without a microphone, with what was not understood, a notice and a pending message."""
    await scene.page.locator("#message").fill(scene.words.question)
    await scene.page.keyboard.press("Enter")
    session = await scene.server.session()
    failed = "conversation.item.input_audio_transcription.failed"
    session.send("input_audio_buffer.speech_started", item_id="u9", audio_start_ms=0)
    session.send(failed, item_id="u9", error={"type": "asr_error", "code": "asr_failed", "message": "x"})
    session.send("parley.notice", code="stage_failed", text="Sorry, say that again.")
    session.state("listening")
    await expect(scene.page.locator(".notice")).to_be_visible()
    await scene.page.locator("#message").fill(scene.words.interruption)


@_state()
async def ended(scene: Scene) -> None:
    session = await scene.conversation()
    await session.close("goodbye")
    await scene.phase("ended")


@_state()
async def called_again(scene: Scene) -> None:
    session = await scene.conversation()
    await session.close("goodbye")
    await scene.phase("ended")
    await scene.talk()


@_state()
async def sound_blocked(scene: Scene) -> None:
    await scene.page.evaluate(
        "HTMLMediaElement.prototype.play = () => Promise.reject(new DOMException('no', 'NotAllowedError')); 0"
    )
    await scene.page.locator("#talk").click()
    await scene.phase("call")
    await expect(scene.page.locator("#hear")).to_be_visible()


@_state(microphone=False)
async def microphone_denied(scene: Scene) -> None:
    await scene.page.locator("#talk").click()
    await expect(scene.page.locator("#problem")).to_be_visible()


@_state()
async def trouble_in_a_call(scene: Scene) -> None:
    session = await scene.conversation()
    session.send("error", error={"type": "server_error", "code": "stage_failed", "message": "x", "event_id": None})
    await expect(scene.page.locator("#problem")).to_be_visible()


@_state()
async def wrong_token(scene: Scene) -> None:
    refusal = json.dumps({"error": {"type": "invalid_request_error", "code": "wrong_token", "message": "x"}})
    await scene.page.route("**/config.json", lambda route: route.fulfill(status=401, body=refusal))
    await scene.page.locator("#talk").click()
    await scene.problem("wrong_token")


@_state()
async def reconnecting(scene: Scene) -> None:
    session = await scene.conversation()
    await scene.page.route("**/offer", lambda route: None)
    await scene.server.host.lose(session)
    await scene.phase("reconnecting")


@_state()
async def capacity_full(scene: Scene) -> None:
    scene.server.host.limit = 0
    await scene.page.locator("#talk").click()
    await scene.phase("full")
    await scene.problem("session_limit")


@_state()
async def waiting_for_a_line(scene: Scene) -> None:
    await capacity_full(scene)
    await scene.page.locator("#problem button").nth(1).click()
    await expect(scene.page.locator("#problem")).to_be_hidden()


@_state()
async def left(scene: Scene) -> None:
    """After a refresh, where the browser wants to ask for the microphone again."""
    await scene.page.add_init_script("navigator.permissions.query = async () => ({ state: 'prompt' })")
    await scene.conversation()
    await scene.page.reload()
    await scene.phase("left")


@_state()
async def elsewhere(scene: Scene) -> None:
    session = await scene.conversation()
    session.send("parley.closed", reason="replaced")
    await scene.phase("elsewhere")


@_state()
async def push_to_talk(scene: Scene) -> None:
    await scene.prefer(mode="push")
    await scene.talk()
    await scene.state("ready")


@_state()
async def silent_answers(scene: Scene) -> None:
    await scene.prefer(answers="silent")
    await scene.page.locator("#message").fill(scene.words.question)
    await scene.page.keyboard.press("Enter")
    session = await scene.server.session()
    ids = {"response_id": "r1", "item_id": "item_r1"}
    session.send("response.created", response={"id": "r1", "status": "in_progress"})
    session.send("response.output_text.delta", **ids, delta=scene.words.answer)
    session.send("response.output_text.done", **ids, text=scene.words.answer)
    session.send("response.done", response={"id": "r1", "status": "completed", "usage": {}})
    await expect(scene.page.locator(".parley")).to_have_attribute("data-status", "completed")


@_state()
async def over_a_websocket(scene: Scene) -> None:
    await scene.page.evaluate("delete window.RTCPeerConnection; 0")
    await scene.conversation()
    await expect(scene.page.locator("#way")).to_be_visible()


@_state()
async def recording(scene: Scene) -> None:
    await scene.conversation()
    await scene.page.locator("#record").click()
    await expect(scene.page.locator("#recording")).to_be_visible()


@_state()
async def recorded(scene: Scene) -> None:
    if not await scene.page.locator("#recording").is_visible():
        await recording(scene)
    await scene.page.locator("#recording").click()
    await expect(scene.page.locator("#kept")).to_be_visible()


@_state()
async def download_menu(scene: Scene) -> None:
    await scene.conversation()
    await scene.page.locator("#save summary").click()
    await expect(scene.page.locator("#save-text")).to_be_visible()


@_state()
async def keys(scene: Scene) -> None:
    await scene.page.keyboard.press("?")
    await expect(scene.page.locator("#keys")).to_be_visible()


@_state()
async def settings(scene: Scene) -> None:
    async def offer_more(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | _OFFERED)

    if await scene.page.locator("#settings").is_visible():
        return
    await scene.page.route("**/config.json", offer_more)
    await scene.page.locator("#open-settings").click()
    await expect(scene.page.locator("#settings")).to_be_visible()


@_state()
async def settings_further_down(scene: Scene) -> None:
    await settings(scene)
    await scene.page.locator("#settings .sections").evaluate(
        "(el) => [el, el.parentElement, el.closest('dialog')].forEach((box) => box.scrollTo(0, 1e6))"
    )


@_state()
async def waterfall(scene: Scene) -> None:
    await scene.prefer(waterfall=True)
    await scene.conversation()
    await expect(scene.page.locator("#figures")).to_be_visible()


@_state()
async def where_the_time_went(scene: Scene) -> None:
    """The waterfall of one turn, opened."""
    await scene.conversation()
    await scene.page.locator(".parley .latency button.show").last.click()
    await expect(scene.page.locator(".parley .panel").last).to_be_visible()


@_state()
async def large_captions(scene: Scene) -> None:
    await scene.prefer(captions="largest")
    await scene.conversation()


@_state(path="check.html")
async def check_before(scene: Scene) -> None:
    await expect(scene.page.locator("#listen")).to_be_visible(timeout=15_000)


@_state(path="check.html")
async def check_asking(scene: Scene) -> None:
    answer = scene.page.locator("[data-check=speaker] button").first
    if not await answer.is_visible():
        await scene.page.locator("#listen").click(timeout=15_000)
        await expect(answer).to_be_visible(timeout=15_000)


@_state(path="check.html")
async def check_after(scene: Scene) -> None:
    await check_asking(scene)
    await scene.page.locator("[data-check=speaker] button").first.click()
    await expect(scene.page.locator("#again")).to_be_visible(timeout=15_000)


@_state(path="check.html", microphone=False)
async def check_failed(scene: Scene) -> None:
    await scene.page.locator("#listen").click(timeout=15_000)
    await scene.page.locator("[data-check=speaker] button").nth(1).click(timeout=15_000)
    await expect(scene.page.locator("#again")).to_be_visible(timeout=15_000)


def problem_codes() -> list[str]:
    """Every problem that has a card: whatever the strings give a title and a text to."""
    strings = "".join(file.read_text() for file in sorted(_STRINGS.glob("*.js")))
    titled = dict.fromkeys(re.findall(r'"(\w+)\.title"', strings))
    return [code for code in titled if f'"{code}.text"' in strings]


async def show_problems(page: Page, codes: list[str]) -> None:
    """The cards of ``codes``, one below the other, as the page's own part draws them."""
    await page.evaluate(
        """async (codes) => {
          const { ProblemCard } = await import("/js/problem-card.js");
          const ways = new Proxy({}, { get: () => () => {} });
          const first = document.getElementById("problem");
          for (const code of codes) {
            const card = code === codes[0] ? first : first.parentElement.insertBefore(first.cloneNode(), null);
            new ProblemCard(card, ways).show({ code });
          }
        }""",
        codes,
    )


def problem_states() -> list[PageState]:
    """One for each problem card, over a page that is not in a call."""

    def showing(code: str) -> Reach:
        return lambda scene: show_problems(scene.page, [code])

    return [PageState(f"problem_{code}", showing(code)) for code in problem_codes()]


async def open_scene(
    browser: Browser, server: PageServer, state: PageState, *, tongue: str = "en", **context: Any
) -> Scene:
    """A page of its own from which ``state`` can be reached, in the language ``tongue``. The caller closes its context."""
    page = await empty_page(browser, state, tongue=tongue, **context)
    await page.goto(server.url + state.path)
    return Scene(page, server, WORDS[tongue])


async def empty_page(browser: Browser, state: PageState, *, tongue: str = "en", **context: Any) -> Page:
    """A page on which the scene of ``state``, and of those like it, can be set."""
    page = await open_page(
        browser,
        "about:blank",
        microphone_allowed=state.microphone,
        locale=LOCALES[tongue],
        bypass_csp=True,
        **context,
    )
    page.set_default_timeout(10_000)
    if not state.path:
        await page.add_init_script(_STEADY_NETWORK)
    return page
