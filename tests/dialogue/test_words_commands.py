"""Stop, go on, goodbye: what steers the talking is told from what is talked about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.backchannel import is_backchannel
from app.dialogue.words.commands import asks_to_go_on, is_farewell, is_hush, is_stop
from app.dialogue.words.nudges import is_nudge
from tests.kit.tables import cases

STOPS = """
stop|Stop.|STOP!|Stop stop stop|stooop|Stop, what time is it?|Stop with|Okay, stop.|OK, stop.|Please stop.|Stop it.|Stop talking.
wait|Wait.|Wait, wait.|Wait a minute, I meant the other one.|um, wait|No|No.|Nooo|No, no.|No, that's not|No, that is wrong.|Oh no, wait
Hold on.|Hang on a second|Enough.|That's enough.|Shut up.|Be quiet.|Quiet please.|Silence|Cancel|Never mind.|Nevermind.|one moment
停|停！|停一下|等一下|等等|不|不，不是这个|不要说了|好的，停|别说了|够了|闭嘴|Stopp!|Halt|Nein, warte.|Moment mal|Arrête !|Non.|¡Basta!|Espera
Parley, stop.|Hey Parley, stop!|Whoa, stop.|Actually, wait.|Thanks, stop.|You can stop now.|All right, that's enough.|Oh no, stop.|Oh. No.|好了，停|先停一下|快停
Sto|hold|Just a|star.|Start.|Stopped.|Start top.|start talking.|Please start.|Okay, start.|Shara|That's an|and on.|Quite please.|No number.|No, nam.
"""
"""The last line: cut at 400 ms, or what Whisper base wrote for "stop", "shut up", "that's enough", "hang on", "no no"."""

NO_STOPS = """
nothing|now|Note that|Nobody knows.|I know|Can you start the timer?|Start the timer.|Star Wars is great|The bus stop is near|stopwatch
non-stop flights|No problem.|No worries.|不错|不过我想问|别的呢|停车场在哪里|Go on.|No, go on.|Sorry, no, please continue.|waiting for you
yeah|okay|I would wait|What is a halt?|moments ago|paradise|para mí una pizza
Don't stop.|Please don't stop.|No, don't stop!|不要停|别停|不用停|Nope, go on.|Oh no!|No way!|No idea.|不会吧|别急|别担心|不得了|You can start.
"""

HUSHES = """
Stop.|Okay, stop.|You can stop now.|Stop. Thank you.|That's enough, thank you.|Okay, thanks, that's enough.|No, stop.|Stop right there.|Stop now, please.
Parley, be quiet.|别说了，谢谢|好了，停|不要再说了|停下来|Stopp, danke.
"""

NO_HUSHES = """
wait|Wait, please.|等一下|No.|Thank you.|Hold on.|Stop, what time is it?|That's enough sugar.|You can stop the timer.|别说了，说说天气
"""

FAREWELLS = """
bye|Bye.|Bye bye!|Bye-bye.|Goodbye.|Good bye|Okay, thanks. Goodbye.|Okay thanks, goodbye.|Thank you very much, bye!|See you later.|See you tomorrow, bye.
Good night.|That's all, thanks. Bye.|I have to go now, goodbye|Bye for now|Have a nice day.|Talk to you later!|Goodbye Parley.|Please hang up.
See you next week.|See you on Monday!|I've got to run, bye.|Gotta run. Bye!|I'm gonna go, bye|I'm off, bye.|That's everything, thanks. Bye.|Bye, later!|Peace out.
那我先挂了|我先挂了啊|下次再聊|不聊了，再见
再见|再见！|好的，谢谢，再见。|拜拜|那就这样，拜拜|谢谢你，晚安|Tschüss!|Auf Wiedersehen|Au revoir, merci.|Adiós|Hasta luego, gracias
"""

NO_FAREWELLS = """
How do I say goodbye in French?|thanks|Thank you.|okay|by|stand by|Bye is a word.|That's all.|What does farewell mean?|I have to go.|Say bye to her.
Later.|Okay, later.|No, later please.|And then later?|So long?|Bye?|再见？|Gotta run.|See you how?|next week|On Monday.
See you later is a song, right?|用法语怎么说再见|谢谢|later maybe|Good morning.|take care of my dog
"""

GO_ONS = """
go on|Go on.|Please go on.|Okay, continue.|Continue.|keep going|Keep going, please.|What were you saying?|Sorry, what were you saying?|You were saying?
Yes, go ahead.|Can you continue?|Carry on.|Continue where you left off.|No, go on.|Sorry, go on.
Sorry for interrupting, go on.|Sorry about that, please continue.|Continue from there.|Nope, go on.|Don't stop now.|继续讲故事|不要停
接着说|继续|继续。|请继续|好的，继续说吧|然后呢？|你刚才说到哪了？|Mach weiter, bitte.|Continuez, s'il vous plaît.|Sigue, por favor.
"""

NO_GO_ONS = """
go on a trip|Continue with Python, not Java.|please|okay|What were you saying about Paris?|How do I continue?|going|继续学习中文|tell me more|no
"""


@pytest.mark.parametrize("words", cases(STOPS))
def test_whoever_says_stop_is_obeyed(words: str) -> None:
    assert is_stop(words)
    assert not is_backchannel(words)


@pytest.mark.parametrize("words", cases(NO_STOPS))
def test_words_that_only_look_like_stop_are_not(words: str) -> None:
    assert not is_stop(words)


@pytest.mark.parametrize("words", cases(HUSHES))
def test_a_call_for_silence_wants_nothing_else(words: str) -> None:
    assert is_hush(words)
    assert is_stop(words)


@pytest.mark.parametrize("words", cases(NO_HUSHES))
def test_what_has_something_to_follow_is_no_mere_call_for_silence(words: str) -> None:
    assert not is_hush(words)


@pytest.mark.parametrize("words", cases(FAREWELLS))
def test_a_goodbye_with_all_its_courtesies_is_a_goodbye(words: str) -> None:
    assert is_farewell(words)


@pytest.mark.parametrize("words", cases(NO_FAREWELLS))
def test_talking_of_goodbyes_is_none(words: str) -> None:
    assert not is_farewell(words)


@pytest.mark.parametrize("words", cases(GO_ONS))
def test_a_request_to_go_on_is_known(words: str) -> None:
    assert asks_to_go_on(words)
    assert not is_stop(words)


@pytest.mark.parametrize("words", cases(NO_GO_ONS))
def test_a_request_for_something_else_is_not_one_to_go_on(words: str) -> None:
    assert not asks_to_go_on(words)


@given(st.sampled_from(["Stop", "No,", "wait", "Hold on", "停", "等一下"]), st.text("abcdefgh ,.?", max_size=40))
def test_what_follows_a_stop_word_does_not_take_it_back(stop: str, rest: str) -> None:
    assert is_stop(f"{stop} {rest}") or rest.split()[:1] == ["by"]


@given(st.text())
def test_any_text_is_judged(words: str) -> None:
    assert {is_stop(words), is_farewell(words), asks_to_go_on(words)} <= {True, False}


@pytest.mark.parametrize("judge", [is_hush, is_farewell, asks_to_go_on, is_nudge])
@pytest.mark.parametrize("word", ["stop ", "bye ", "go on ", "hello ", "停", "再见", "继续", "喂"])
def test_no_signal_is_a_page_long(judge, word: str) -> None:
    assert not judge(word * 100_000)


def test_a_stop_is_known_before_a_speech_of_any_length() -> None:
    assert is_stop("Okay, stop. " + "I meant the other one. " * 10_000)
    assert not is_stop("嗯" * 100_000 + "停")


@pytest.mark.parametrize("judge", [is_stop, is_farewell, asks_to_go_on])
def test_nothing_said_commands_nothing(judge) -> None:
    assert not any(judge(words) for words in ("", "  ", "...", "?"))
