"""The few lines that Parley speaks itself."""

from __future__ import annotations

from enum import StrEnum


class Phrase(StrEnum):
    """What there is to say: mostly what went wrong, as far as the user needs to know."""

    NOT_HEARD = "not_heard"
    NO_ANSWER = "no_answer"
    STALLED = "stalled"
    BUSY = "busy"
    NO_VOICE = "no_voice"
    ONE_MOMENT = "one_moment"
    STILL_THERE = "still_there"


_TEXTS: dict[str, dict[Phrase, str]] = {
    "en": {
        Phrase.NOT_HEARD: "Sorry, I did not catch that. Could you say it again?",
        Phrase.NO_ANSWER: "Sorry, something went wrong on my side. Please ask me again.",
        Phrase.STALLED: "Sorry, I lost my thread there. Please ask me again.",
        Phrase.BUSY: "Sorry, I am very busy right now. Please try again in a moment.",
        Phrase.NO_VOICE: "Sorry, I lost my voice for a moment. Please ask me again.",
        Phrase.ONE_MOMENT: "One moment.",
        Phrase.STILL_THERE: "Are you still there?",
    },
    "zh": {
        Phrase.NOT_HEARD: "抱歉，我没听清楚，请再说一遍。",
        Phrase.NO_ANSWER: "抱歉，我这边出了点问题，请再问一次。",
        Phrase.STALLED: "抱歉，我刚才说到一半断了，请再问一次。",
        Phrase.BUSY: "抱歉，我现在很忙，请稍后再试。",
        Phrase.NO_VOICE: "抱歉，我刚才发不出声音，请再问一次。",
        Phrase.ONE_MOMENT: "请稍等。",
        Phrase.STILL_THERE: "您还在吗？",
    },
}


def phrase_text(phrase: Phrase, language: str) -> str:
    """The line in ``language`` (ISO 639-1), in English where it has not been translated."""
    return _TEXTS.get(language, _TEXTS["en"])[phrase]
