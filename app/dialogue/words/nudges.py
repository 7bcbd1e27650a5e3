"""Words by which someone who waits for an answer makes sure that they are still being listened to."""

from __future__ import annotations

from app.dialogue.words.plain import consists_of, phrases, short

_NUDGES = phrases(
    "hello|hello there|hey|hi|are you there|are you still there|you there|you still there|still there|is anyone there"
    "|is anybody there|anyone there|anybody there|can you hear me|do you hear me|did you hear me|you hear me"
    "|are you listening",
    "喂|你好|你还在吗|你還在嗎|在吗|在嗎|还在吗|還在嗎|你在吗|你在嗎|听得到吗|聽得到嗎|听得见吗|你听得到吗|你聽得到嗎|能听到吗|有人吗|有人嗎",
    "hallo|bist du da|bist du noch da|sind sie noch da|hörst du mich|hören sie mich",
    "allô|allo|tu es là|vous êtes là|tu m'entends|vous m'entendez",
    "hola|estás ahí|sigues ahí|está ahí|me oyes|me escuchas",
)


def is_nudge(words: str) -> bool:
    """True for "Hello? Hello?" and its like, false as soon as anything else is said."""
    return consists_of(short(words), _NUDGES)
