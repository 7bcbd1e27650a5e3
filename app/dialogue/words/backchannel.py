"""What listeners say while another speaks, and do not mean as a turn: noise that says "I am with you"."""

from __future__ import annotations

import re

from app.dialogue.words.plain import Phrases, consists_of, phrases, short

_HUMMED = re.compile(r"m+h*m*|h+m+|m+h+m+h*|u+m+|u+h+m*|(?:a+h+)+a*|(?:o+h+)+|h+u+h+|e+h+|u+h+u+h+|a+w+|ha|haha|hn")
"""Sounds that recognisers spell as they like: "mm", "mhm", "hmm", "um-hum", "uh-huh", "aha", "ooh".

"Uh-uh" and "uh-oh" among them: that is how an "uh-huh" of little breath is written, and nobody objects so softly."""

_ADMIRED = (
    "amazing|awesome|brilliant|cool|crazy|excellent|fantastic|fascinating|funny|good|great|impressive|incredible|interesting"
    "|lovely|nice|perfect|true|wild|wonderful"
)
_ADMIRING = ("", "that's", "that is", "that's so", "that's really", "so", "very", "really", "quite")

_DISMAY = re.compile(r"\boh no\b", re.IGNORECASE)
"""In one breath: "Oh. No." objects."""

_WORDS = phrases(
    # What Whisper base has written for hummed or shortened ones, beside the above.
    "hum|mm hum|em|hem|m m|m m h|m m h m|amen|oic|rate rate|rate right|right rate|make sense|make some|makes|interest|affirm|affirmative",
    # Assent. "Yes" and "okay" are answers too, but not to someone who is speaking.
    "yeah|yea|yep|yup|yes|ya|right|that's right|okay|ok|k|kay|alright|all right|sure|sure thing|of course|true|that's true"
    "|exactly|absolutely|definitely|indeed|agreed|totally|correct|fair enough|fair|for sure|you're right|naturally|i agree"
    "|you bet|good point|fair point|true that",
    # Understanding.
    "i see|i got it|got it|gotcha|i get it|i understand|understood|makes sense|that makes sense|i know|i hear you|noted",
    # Interest, surprise and praise.
    "|".join(f"{how} {what}" for how in _ADMIRING for what in _ADMIRED.split("|")),
    "how nice|how interesting|how wonderful|how lovely|how funny|really|oh really|wow|whoa|oh wow|oh my|oh dear"
    "|my goodness|oh my god|oh my gosh|no way|for real|not bad|good to know|sounds good|is that so|is that right",
    # Chinese, in both scripts.
    "嗯|恩|呣|唔|哦|噢|喔|啊|呀|哈|哎|唉|诶|嗯哼|对|對|对的|對的|对啊|對啊|对呀|是|是的|是啊|是呀|是吗|是嗎|好|好的|好啊|好吧|好呀|行|行吧|可以|没错|沒錯"
    "|明白|明白了|知道|知道了|我知道|我知道了|我明白|我明白了|懂了|我懂|了解|了解了|当然|當然|真的|真的吗|真的嗎|真好|不错|不錯|厉害|厲害|有道理|有意思|原来如此|原來如此"
    "|这样啊|這樣啊|这样|這樣|这样子|這樣子|确实|確實|太好了|太棒了|哇|哇塞|哇哦|嘿嘿|呵呵|懂|原来是这样|真的假的|没问题|沒問題"
    "|不会吧|不會吧|不是吧|别急|別急",
    # German, French, Spanish.
    "ja|jawohl|jo|genau|stimmt|richtig|klar|gut|sehr gut|aha|ach so|achso|verstehe|ich verstehe|natürlich|echt|schön|super",
    "oui|ouais|d'accord|voilà|je vois|je comprends|bien sûr|bien|très bien|exactement|ah bon|c'est ça|c'est vrai|vraiment",
    "sí|si|vale|claro|claro que sí|ya|ya veo|entiendo|entendido|bueno|bien|muy bien|de acuerdo|exacto|cierto|verdad",
)


def is_backchannel(words: str) -> bool:
    """True when all of ``words`` is listener's noise ("Mm-hmm.", "Yeah, yeah.", "好的"); false as soon as it says something."""
    said = short(_DISMAY.sub("oh dear", words))
    return consists_of(said, _WORDS | _hummed(said))


def _hummed(said: tuple[str, ...]) -> Phrases:
    return frozenset((word,) for word in said if _HUMMED.fullmatch(word))
