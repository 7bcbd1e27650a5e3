"""A client is lost and comes back: nothing is lost with it, and what it missed is said again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.audio.playout import Playout
from app.dialogue.ports import LastHeard
from app.dialogue.seat import Seat
from app.dialogue.state import Item
from app.errors import ResumeExpired, SessionLimit
from app.transports.events import encode
from tests.kit.script import MS_PER_CHAR, FakeLanguageModel, FakeRecognizer, Script
from tests.kit.virtual_time import run_virtual

REPLY = "This is the first part. This is the second part. And this is the last."
FIRST = "This is the first part. "


class Page:
    """A client that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: Any) -> None:
        self.events.append(dict(event))

    def told(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]


async def into_the_second_part(script: Script) -> None:
    await script.speak(0.6)
    await script.until(lambda: script.session.playout.played_samples > (len(FIRST) + 8) * MS_PER_CHAR * 48)


def asked(*replies: str) -> dict[str, Any]:
    llm = FakeLanguageModel(replies=[[text] for text in replies])
    return {"asr": FakeRecognizer(["tell me", "and now", "more"]), "llm": llm}


def test_a_reply_stops_in_mid_word_and_goes_on_from_the_beginning_of_its_clause() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            await into_the_second_part(script)
            await script.session.leave()
            told, played = len(script.events), script.session.playout.played_samples
            await script.wait(20.0)
            assert len(script.events) == told, "nobody is there to be told"
            assert script.silent_for(19.0)
            assert script.session.playout.played_samples == played
            page = Page()
            script.session.take_up(page, None)
            created, history, response, delta, heard = page.events[:5]
            assert created["session"]["resumed"] is True
            assert created["session"]["resume"]["token"] == script.session.resume_token
            assert history["items"] == [{"id": "item_1", "role": "user", "text": "tell me", "unheard": ""}]
            assert response["type"] == "response.created"
            assert delta["delta"] == REPLY
            assert heard["chars"] == len(FIRST)
            assert page.told("parley.state")[-1]["state"] == "speaking"
            await script.until(lambda: script.phase == "listening")
            assert script.history == [("user", "tell me"), ("assistant", REPLY)]
            assert page.told("response.done")[0]["response"]["status"] == "completed"
            assert len(page.told("response.created")) == 1

    run_virtual(conversation())


def test_it_goes_back_to_what_the_client_says_it_heard_last() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            await into_the_second_part(script)
            await script.session.leave()
            reply = script.session.state.reply
            assert reply is not None
            script.session.take_up(Page(), LastHeard(reply.id, 9))
            assert script.session.playout.played_samples == 0
            await script.until(lambda: script.phase == "listening")
            assert script.history[-1] == ("assistant", REPLY)

    run_virtual(conversation())


def test_the_end_of_a_reply_that_was_played_into_a_dead_connection_is_said_again() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            page = Page()
            last = script.session.state.history[-1].id
            script.session.take_up(page, LastHeard(last, len(FIRST) + 8))
            assert [item["text"] for item in page.told("parley.history")[0]["items"]] == ["tell me", FIRST.strip()]
            await script.until(lambda: script.phase == "listening" and len(script.history) == 3)
            rest = REPLY.removeprefix(FIRST)
            assert script.history == [("user", "tell me"), ("assistant", FIRST.strip()), ("assistant", rest)]

    run_virtual(conversation())


def test_what_was_heard_to_its_end_is_not_said_again() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            page = Page()
            script.session.take_up(page, LastHeard(script.session.state.history[-1].id, len(REPLY)))
            await script.wait(2.0)
            assert script.history == [("user", "tell me"), ("assistant", REPLY)]
            assert not page.told("response.created")

    run_virtual(conversation())


def test_what_the_user_was_saying_is_their_turn_and_its_answer_waits_for_them() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            script._say_until = script.loop.time() + 60.0
            await script.until(lambda: script.phase == "hearing")
            await script.wait(0.8)
            await script.session.leave()
            script._say_until = 0.0
            await script.until(lambda: script.session.playout.queued_samples > 0)
            assert script.history == [("user", "tell me")]
            await script.wait(5.0)
            assert script.session.playout.played_samples == 0
            page = Page()
            script.session.take_up(page, None)
            await script.until(lambda: len(script.history) == 2)
            assert script.history[-1] == ("assistant", REPLY)

    run_virtual(conversation())


def test_nobody_is_asked_whether_they_are_there_while_they_are_not_or_the_moment_they_are_back() -> None:
    async def conversation() -> None:
        async with Script(**asked("Yes.")) as script:
            await script.speak(0.6)
            await script.until(lambda: len(script.history) == 2)
            await script.session.leave()
            await script.wait(100.0)
            page = Page()
            script.session.take_up(page, None)
            await script.wait(5.0)
            assert not page.told("parley.notice")
            await script.wait(30.0)
            assert [event["code"] for event in page.told("parley.notice")] == ["still_there"]

    run_virtual(conversation())


@pytest.mark.parametrize("resume_s", [120.0, 0.0])
def test_a_session_that_nobody_takes_up_ends_by_itself(resume_s: float) -> None:
    async def conversation() -> None:
        async with Script(**asked("Yes."), server={"resume_s": resume_s}) as script:
            await script.session.leave()
            await script.wait(max(0.0, resume_s - 1.0))
            assert script.session.state.closed is (resume_s == 0)
            await script.wait(2.0)
            assert script.session.state.closed
            await script.session.wait_closed()

    run_virtual(conversation())


def test_a_seat_that_was_taken_moves_nothing_any_more() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            old_page, new_page = Page(), Page()
            old = Seat(script.session, old_page)
            new = old.take_over(new_page, None)
            await old.wait_closed()
            assert old.replaced
            assert not new.replaced
            assert [event["reason"] for event in old_page.told("parley.closed")] == ["replaced"]
            await into_the_second_part(script)
            before = script.session.playout.played_samples
            assert not old.pull_audio(960).any()
            assert script.session.playout.played_samples == before
            old.receive({"type": "response.cancel"})
            await old.leave()
            await old.close("gone")
            assert not script.session.state.closed
            assert script.session.state.reply is not None
            assert new.pull_audio(960).any()

    run_virtual(conversation())


async def test_a_host_gives_a_session_only_to_its_token_and_a_waiting_one_makes_way() -> None:
    from app.config import Settings
    from app.dialogue.host import Host

    async with Script() as script:
        settings = Settings.model_validate({"server": {"max_sessions": 2}})
        host = Host(script.session._stages, settings)
        one, two = Page(), Page()
        first = await host.open(one, transport="test")
        second = await host.open(two, transport="test")
        for token in ("", "x", first.resume_token + "x", first.id):
            with pytest.raises(ResumeExpired, match=r"server\.resume_s"):
                await host.resume(token, Page(), transport="test")
        again = await host.resume(first.resume_token, Page(), transport="test")
        assert again.id == first.id
        assert first.replaced
        await again.leave()
        await second.leave()
        third = await host.open(Page(), transport="test")
        assert host.active == 2
        with pytest.raises(ResumeExpired):
            await host.resume(first.resume_token, Page(), transport="test")
        again = await host.resume(second.resume_token, Page(), transport="test")
        assert again.id == second.id
        await again.leave()
        await host.end("another token")
        assert host.active == 2
        await host.end(second.resume_token)
        await host.end(second.resume_token)
        assert host.active == 1
        await third.close("done")
        await host.close()


def test_of_a_conversation_that_is_too_long_for_one_event_the_end_is_told() -> None:
    items = tuple(Item(f"item_{n}", "user" if n % 2 else "assistant", "\u4f60\u597d" * 200) for n in range(300))

    async def conversation() -> None:
        async with Script() as script:
            script.session._state = replace(script.session.state, history=items)
            page = Page()
            script.session.take_up(page, None)
            (told,) = page.told("parley.history")
            assert 190_000 < len(encode(told)) < 201_000
            assert [item["id"] for item in told["items"]] == [item.id for item in items[-len(told["items"]) :]]

    run_virtual(conversation())


async def test_many_who_come_at_once_do_not_share_the_place_of_one_that_makes_way() -> None:
    from app.config import Settings
    from app.dialogue.host import Host

    async with Script() as script:
        host = Host(script.session._stages, Settings.model_validate({"server": {"max_sessions": 2}}))
        await host.open(Page(), transport="test")
        await (await host.open(Page(), transport="test")).leave()
        opened = await asyncio.gather(*(host.open(Page(), transport="test") for _ in range(4)), return_exceptions=True)
        assert [type(result) for result in opened if isinstance(result, Exception)] == [SessionLimit] * 3
        assert host.active == 2
        await host.close()
        assert host.active == 0


async def test_where_nobody_is_waited_for_a_token_takes_nothing_over() -> None:
    from app.config import Settings
    from app.dialogue.host import Host

    async with Script() as script:
        host = Host(script.session._stages, Settings.model_validate({"server": {"resume_s": 0}}))
        seat = await host.open(Page(), transport="test")
        with pytest.raises(ResumeExpired):
            await host.resume(seat.resume_token, Page(), transport="test")
        assert seat.taken
        assert not seat.session.state.closed
        await host.close()


async def test_leaving_and_coming_back_leaves_no_work_behind() -> None:
    from app.config import Settings
    from app.dialogue.host import Host

    async with Script() as script:
        host = Host(script.session._stages, Settings())
        seat = await host.open(Page(), transport="test")
        before = len(asyncio.all_tasks())
        for number in range(50):
            waiting = asyncio.ensure_future(seat.wait_closed())
            await asyncio.sleep(0)
            if number % 2:
                await seat.leave()
            seat = await host.resume(seat.resume_token, Page(), transport="test")
            await waiting
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == before
        assert host.active == 1
        await host.close()


def test_the_playout_plays_again_what_it_gave_in_pieces_of_any_length() -> None:
    playout = Playout(capacity_s=60.0)
    sound = np.arange(48_000 * 20, dtype=np.int64).astype(np.int16)
    playout.begin(1)
    for start in range(0, len(sound), 1000):  # the queue runs dry in mid-frame, every other time
        playout.write(1, sound[start : start + 1000])
        playout.read(960)
        playout.read(960)
    at = playout.played_samples - 15 * 48_000
    playout.rewind(at)
    assert playout.played_samples == at
    assert np.array_equal(playout.read(960), sound[at : at + 960])


def test_the_playout_plays_again_from_any_sample_of_the_last_15_s() -> None:
    playout = Playout(capacity_s=60.0)
    sound = np.arange(48_000 * 20, dtype=np.int64).astype(np.int16)
    playout.begin(1)
    playout.write(1, sound)
    for _ in range(1000):
        playout.read(960)
    for back in (1, 959, 960, 961, 5_000, 48_000 * 14):
        at = playout.played_samples - back
        queued = playout.queued_samples
        playout.rewind(at)
        assert playout.played_samples == at
        assert playout.queued_samples == queued + back
        again = np.concatenate([playout.read(960) for _ in range(-(-back // 960))])[:back]
        assert np.array_equal(again, sound[at : at + back])
    playout.rewind(0)
    assert 0 < playout.played_samples <= 5 * 48_000, "older sound is not kept"


def test_who_goes_on_speaking_through_a_lost_connection_is_heard_once_they_are_back() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["tell me about cats"])
        async with Script(asr=asr, llm=FakeLanguageModel(replies=[["Cats purr."]])) as script:
            script._say_until = script.loop.time() + 2.0
            await script.wait(1.0)
            script.session.take_up(Page(), None)
            await script.until(lambda: len(script.history) == 2)
            assert script.history == [("user", "tell me about cats"), ("assistant", "Cats purr.")]
            assert asr.calls[-1] >= 2 * 16_000

    run_virtual(conversation())


def test_a_reply_that_was_interrupted_as_the_connection_broke_does_not_go_on_before_the_words_are_known() -> None:
    async def conversation() -> None:
        asr = FakeRecognizer(["tell me", "no, something else"], previews=[""])
        llm = FakeLanguageModel(replies=[[REPLY], ["Fine."]])
        async with Script(asr=asr, llm=llm) as script:
            await into_the_second_part(script)
            script.asr.delay_s = 1.0
            await script.speak(0.4)
            script.session.take_up(Page(), None)
            assert script.session.state.utterance is not None
            before = script.session.playout.played_samples
            await script.wait(0.8)
            assert script.session.playout.played_samples == before
            await script.until(lambda: len(script.history) == 4)
            assert script.history[2] == ("user", "no, something else")

    run_virtual(conversation())


def test_a_reply_waits_for_a_connection_that_takes_long_to_come_about() -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY)) as script:
            await into_the_second_part(script)
            await script.session.leave()
            script.playing = False
            await script.wait(1.0)
            page = Page()
            script.session.take_up(page, None)
            await script.wait(12.0)
            script.playing = True
            await script.until(lambda: script.phase == "listening")
            assert script.history[-1] == ("assistant", REPLY)
            assert not page.told("error")

    run_virtual(conversation())


@pytest.mark.parametrize("reply_id", ["", "item_", "nobody", "item_" + "9" * 5000, "item_-1", "item_٣"])
@pytest.mark.parametrize("chars", [0, 10**40])
def test_whatever_a_client_says_it_heard_the_session_goes_on(reply_id: str, chars: int) -> None:
    async def conversation() -> None:
        async with Script(**asked(REPLY, "Yes.")) as script:
            await into_the_second_part(script)
            for _ in range(2):
                script.session.take_up(Page(), LastHeard(reply_id, chars))
                await script.until(lambda: script.phase == "listening")
            text = " ".join(text for role, text in script.history if role == "assistant")
            assert text == REPLY

    run_virtual(conversation())
