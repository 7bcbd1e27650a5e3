"""Every state in which the page can be seen, each reached as a person reaches it, over a scripted server.

They serve the accessibility tests and the screenshots.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from playwright.async_api import Browser, Page, expect

from tests.kit.browser import open_page
from tests.kit.page_server import PageServer
from tests.kit.scripted_session import ScriptedSession

LOCALES = {"en": "en-US", "zh": "zh-CN"}

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
        story="Then stretch for five of them, and write down three things that you want to get done. "
        "After that you could put on some music, make coffee, and",
        heard_of_story=85,
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
        await self.page.locator("#talk").click()
        await self.phase("call")
        return await self.server.session()

    async def phase(self, name: str) -> None:
        await expect(self.page.locator("body")).to_have_attribute("data-phase", name)

    async def state(self, name: str) -> None:
        await expect(self.page.locator("body")).to_have_attribute("data-state", name)

    async def conversation(self) -> ScriptedSession:
        """A call in which a question was answered, and a longer answer interrupted."""
        session, words = await self.talk(), self.words
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
    await expect(scene.page.locator("#problem")).to_have_attribute("data-code", "wrong_token")


async def open_state(
    browser: Browser, server: PageServer, state: PageState, *, tongue: str = "en", **context: object
) -> Page:
    """A page of its own in ``state``, in the language ``tongue``. The caller closes its context."""
    page = await open_page(
        browser, server.url + state.path, microphone_allowed=state.microphone, locale=LOCALES[tongue],
        bypass_csp=True, **context,
    )  # fmt: skip
    page.set_default_timeout(6000)
    await state.reach(Scene(page, server, WORDS[tongue]))
    return page
