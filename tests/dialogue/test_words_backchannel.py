"""Noise of listeners is told from words, in whatever spelling a recogniser gives it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.backchannel import is_backchannel
from tests.kit.tables import cases

NOISE = """
mm-hm|Mm-hmm.|Mmm|Mmmm.|Hmm.|Hm|Um-hum|mhm|Mhm.|OIC|Ah ha|uh-huh|uh|Um.|Uh huh.|Uh-huh, uh-huh.|Uh-uh.|Uh oh.|mm-hmm|Aha.|Oh.|Ooh|Ah, okay.|HN.|M.M.H.M.
Yeah|Yeah, yeah.|yeahhh|Yep.|Yes.|right|Right, right.|Rate rate|okay|Okay okay|OK.|Okay, I see.|All right.|Alright.|I see.|Oh, I see.
Sure!|got it|Got it, okay.|Make sense.|That makes sense.|Of course.|Exactly.|Oh, really?|Wow.|Interesting.|Great, yeah.
嗯|嗯嗯。|嗯，对。|对|对对对|對啊|好|好的。|好的，好的|哦，明白了。|是的|原来如此|知道了
Oh no!|Oh no, oh no!|No way!|That's amazing!|Oh, that's so cool.|Very good.|I agree.|So true.|Good point.|For real?|Oh my gosh!
哇|哇，厉害|别急|不会吧|不会吧？|真的假的
Ja, genau.|Ach so.|Oui, d'accord.|Ah bon ?|Sí, sí.|Claro.
"""
CONTENT = """
no|No.|No, no.|nope|not really|yeah no|Nuh-uh.|yeah but|Yeah, but what about Paris?|Okay, and then?|right now|I see a problem there.
Oh no, wait.|Oh. No.|Oh no, not that one.|That's wrong.|That's my phone.|How?|No way, that's wrong.|So what?|不会吧你说错了|别急着走
stop|okay stop|wait|Sure, but how?|Is it right?|Which one is great?|hello|thank you|Go on.|What?|tell me more|Yes, please tell me.
不|不对|不是|好的，但是|我知道一个|停|对了，还有|nein|non|ja aber|oui mais
"""


@pytest.mark.parametrize("words", cases(NOISE))
def test_listeners_noise_is_no_turn(words: str) -> None:
    assert is_backchannel(words)


@pytest.mark.parametrize("words", cases(CONTENT))
def test_words_that_say_something_are_not_noise(words: str) -> None:
    assert not is_backchannel(words)


def test_nobody_hums_for_as_long_as_that() -> None:
    assert is_backchannel("yeah " * 20)
    assert not any(is_backchannel(word * 100_000) for word in ("yeah ", "嗯", "mh"))


@pytest.mark.parametrize("words", ["", " ", "...", "?!", "♪"])
def test_nothing_is_not_a_backchannel(words: str) -> None:
    assert not is_backchannel(words)


@given(st.lists(st.sampled_from(cases(NOISE)), min_size=1, max_size=6), st.sampled_from([" ", ", ", "... ", "。"]))
def test_noise_after_noise_is_noise(noises: list[str], between: str) -> None:
    assert is_backchannel(between.join(noises).upper())


@given(st.lists(st.sampled_from(cases(NOISE)), max_size=4), st.sampled_from(["no", "but", "elephants", "不", "stop"]))
def test_one_word_of_content_among_noise_is_content(noises: list[str], word: str) -> None:
    assert not is_backchannel(" ".join([*noises, word]))
    assert not is_backchannel(" ".join([word, *noises]))


@given(st.text())
def test_any_text_is_judged(words: str) -> None:
    assert is_backchannel(words) in (True, False)
