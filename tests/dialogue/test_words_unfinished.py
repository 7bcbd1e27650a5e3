"""Sentences that were broken off are told from whole ones by their words alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialogue.words.unfinished import Ending, ending, sounds_unfinished
from tests.kit.tables import cases

UNFINISHED = """
I would like to.|I'd like a|I'd like a pizza with.|So I went to the store and...|I need eggs, milk and.|And|so|So...|It's because.|and then|because
Can you tell me the|Tell me about the weather in.|Tell me about|Send it to.|My email is John At.|Could you please?|Do you know if?|Do you know if...
Could you?|Not only is it expensive.|You can call me yet 212-664.|Can you?|Do you think that?|Last night I dreamed that.|I would like to know.|What happens when?|Remind me to call.
Okay, so first.|Yeah, I think|Well, so|I have two questions.|We need eggs. Milk.|My children are called Anna. Peter.|The order number is 7-3.|The code is 4. 9|My favorite color is...
My phone number is...|my name is|The address is.|The thing is|Um.|Well, um|Uh|He was like|Well, you know.|Let me think.|I was thinking that maybe.
First.|I want three things. First.|I want three things:|I was thinking—|It depends on|I live in|I think that|If|If it rains tomorrow.|When I was young.
What is the capital of?|What is the best way to?|What is the weather in?|What time is it in|What is the difference between|What do you want me to|I
My number is 555.|415-623.|4 1 5|My number is 4 1 5, 6 2 3|my credit card number is 4242 4242|The code is one two.|Call me at 415 555.
我想|我的电话号码是|因为|我要苹果和|然后|你能帮我|首先|如果明天下雨的话|我觉得，|我的电话是一三八|Ich möchte|Ich komme aus Köln und|J'aimerais|quiero una
In the winter I live in|Because it was so late|Before the meeting|I want to|If you can|My account number is 4711|One two four.
"""

HALF = """
Because it was so late.|When I was young.|If it rains tomorrow.|Before they left.|I want to.|I have to.|Do you want to?|I don't want to.|I'd love to.|Next.|Actually.|You know.|这个。
"""
"""Mostly the first half of a sentence, and sometimes an answer."""

NUMBERS = "My number is 555.|The code is one two.|The order number is 7-3.|My account number is 4711."

BROKEN_OFF = """
Because it was so late|I want to|I would like to.|Do you know if?|What is the capital of?|Could you?|My number is 555|I think that.|We need eggs. Milk.
"""

WHOLE = """
What is that for?|Where are you from?|Come on in.|I don't know.|What are you looking at?|Turn the light on.|Please turn it on.|How do you do that?
What time is it?|Is the light on?|Yes it is.|I think so.|What is it made of?|Who are you talking to?|I want that.|Tell me a joke.|Thank you very much.
What is it like?|What would you like?|My name is Anna.|It is 42.|One.|Go on.|And?|What do you think?|I like it though.|How are you?
Do you know?|What's going on?|Who is he?|What is it about?|What was the movie about?|What did you think of?|What's the capital of France?|Me too.
What's it for?|What is this used for?|Where do you come from?|I came first.|Yes.|No.|Okay.|Hello.|Count me in.|I'm in.|That's it.|Let's go.|Who won?
I want to know what the code is.|I know how old you are.|If you want.|When I was young, I lived in Paris.|When can you come?|And so on.
My number is 5 5 5 1 2 3 4.|Call me at 415-555-1234.|The code is 1234.|My birthday is in March 1990.|What is 5 plus 7?|Set a timer for 5 minutes.|42
Yes, I was.|I like it, actually.|It is nice, I think.|What's the difference?|Wer bist du?|Comment vas-tu?|It weighs a ton.|给我一个|就是。|Well?
I have a question.|What are three reasons?|Good to know.|I like it. Thanks.|Yes. Tomorrow.|Who is there? Anna.|The order number is 7-3-9-1-8-2.
The code is 281.|Not only is it expensive, it is also very slow.|The number of guests is about 5.|It's only 7.|What's the number for 911?|Your call costs nothing. It is zero.|I have a new number of tokens. It can be zero.|She is the one I told you about, that you were waiting for.|I love the house that she was born in.
Give one to another.|In 1984.|My house number is 1234567.|Wake me at 7.
Once a week.|Once a month|Before the meeting.|After the party.|Until this evening.|As a teacher.|The one I told you about.|She is the one I told you about.
I live in Ulm. Germany.|We talked about it. Mostly.|My order number is 4711.|My room number is 5.|房间号是12。|7:30.|And then?|What for?|Such as?|Just because.
As I said.|As you wish.|If you can.|One two three.|一二三|I stayed at home because it was so late.
我要那个|你好吗？|今天天气怎么样|我住在北京|那是什么？|我的电话是13812345678|Was ist das?|Ja.|Et toi?|Me llamo Ana.
"""


@pytest.mark.parametrize("words", cases(UNFINISHED))
def test_what_was_broken_off_sounds_unfinished(words: str) -> None:
    assert sounds_unfinished(words)


@pytest.mark.parametrize("words", cases(WHOLE))
def test_a_whole_sentence_does_not(words: str) -> None:
    assert not sounds_unfinished(words)


@pytest.mark.parametrize(
    ("words", "then"),
    [(words, Ending.HALF) for words in cases(HALF)]
    + [(words, Ending.NUMBER) for words in cases(NUMBERS)]
    + [(words, Ending.OPEN) for words in cases(BROKEN_OFF)],
)
def test_what_might_be_an_answer_is_told_from_what_nobody_ends_on(words: str, then: Ending) -> None:
    assert ending(words) is then


@pytest.mark.parametrize("filler", ["I see. ", "嗯", " ", "5 ", "have two "])
def test_only_the_end_of_a_long_speech_counts(filler: str) -> None:
    assert sounds_unfinished(filler * 50_000 + "I went to the")
    assert not sounds_unfinished(filler * 50_000 + "I went to the station.")


@pytest.mark.parametrize("sentence", [case for case in cases(WHOLE) if case.endswith(".") and " " in case])
@pytest.mark.parametrize("opening", [" And", " But...", " Because", ", um", " So I want to"])
def test_a_whole_sentence_with_another_begun_is_unfinished(sentence: str, opening: str) -> None:
    assert sounds_unfinished(sentence + opening)


@given(st.text())
def test_any_text_is_judged(words: str) -> None:
    assert sounds_unfinished(words) in (True, False)


@pytest.mark.parametrize("words", ["", " ", "?", "。"])
def test_nothing_is_not_unfinished(words: str) -> None:
    assert not sounds_unfinished(words)
