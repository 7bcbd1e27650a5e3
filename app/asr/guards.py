"""What Whisper says of sound that holds no words, and how it is told from speech."""

from __future__ import annotations

import re
import zlib

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm

_MIN_PEAK = 150
"""Of 32767. Nobody speaks that softly into a microphone; it is hiss."""
_HOPELESS_LOGPROB = -1.45
"""Text this improbable is not what was said, whatever else holds."""
_NO_SPEECH_TEXT = ((0.65, -0.4), (0.45, -0.9))
"""(no-speech probability, mean log probability): above the one and below the other there was no speech.
Measured on noise against short words; the Whisper paper (section 4.5) uses (0.6, -1.0) on longer text."""
_MAX_COMPRESSION = 2.4
"""zlib ratio above which text is a loop (Whisper paper, section 4.5)."""
_FASTEST_CHARS_PER_S = 30.0
"""Faster than any speaker: text that was not in the sound."""
_BRISK_CHARS_PER_S = 20.0
"""Quick speech; a decoder that loops fills its whole budget of tokens instead."""

_SURELY_SPEECH = 0.3
"""No-speech probability. Words had at most 0.2, noises 0.6 and more."""
_BRISK_SIGNS_PER_S = 10.0
"""The same for Chinese and Japanese, and for digits in a row."""

_HALLUCINATED = frozenset(
    {
        "thank you",
        "thank you very much",
        "thank you so much",
        "thanks for watching",
        "thank you for watching",
        "please subscribe",
        "like and subscribe",
        "see you next time",
        "see you in the next video",
        "the end",
        "subtitles by the amara.org community",
    }
)
"""What Whisper makes of noise when it has to say something; believed only when it is sure."""
_SURE_LOGPROB = -0.45
_MIN_LOOP_CHARS = 8
_ONE_SOUND = re.compile(r"([^\W\d_]{1,4}[^\w\s]?)\1{3,}", re.IGNORECASE)
_SOUND_TAG = re.compile(r"^[\s\[(*♪]*(?:[^\])*♪]*)[\])*♪][\s.]*$")


def is_silent(pcm: Pcm) -> bool:
    """True when there is nothing in ``pcm`` (int16) that could be speech."""
    return len(pcm) < INPUT_RATE_HZ // 50 or int(np.abs(pcm.astype(np.int32)).max()) < _MIN_PEAK


def without_loop(text: str, *, no_speech: float, seconds: float) -> str:
    """``text``, or if it ends in one phrase over and over, faster than anybody speaks, that phrase only once.

    Whisper hears rightly and then does not stop: it would be a pity to lose the words with the loop. Loops in
    what may be noise ("PAPAPA") stay, and betray it.
    """
    words = text.split()
    spaced = len(words) > 1
    if no_speech > _SURELY_SPEECH or (not spaced and re.search("[A-Za-z]", text)):
        return text
    if len(text) / max(0.2, seconds) <= (_BRISK_CHARS_PER_S if spaced else _BRISK_SIGNS_PER_S):
        return text
    return " ".join(_once(words)) if spaced else "".join(_once(list(text)))


def _once(units: list[str]) -> list[str]:
    """Without what comes after the first of three or more equal runs at the end; the last may be cut off anywhere."""
    for end in (len(units), len(units) - 1):
        for length in range(1, end // 3 + 1):
            start = end - length
            while start and units[start - 1] == units[start - 1 + length]:
                start -= 1
            if end - start >= 3 * length:
                return units[: start + length]
    return units


def is_hallucinated(text: str, *, no_speech: float, logprob: float, seconds: float) -> bool:
    """Whether ``text`` was made up: ``no_speech`` probability, mean token ``logprob``, length of the sound."""
    said = text.strip()
    if not any(char.isalnum() for char in said):
        return True
    if said[0] in "[(*♪" and _SOUND_TAG.match(said):  # "[Music]", "(coughs)"
        return True
    if logprob < _HOPELESS_LOGPROB:
        return True
    if any(no_speech > silence and logprob < improbable for silence, improbable in _NO_SPEECH_TEXT):
        return True
    if len(said) > 12 and len(said) / max(0.2, seconds) > _FASTEST_CHARS_PER_S:
        return True
    encoded = said.encode()
    if len(encoded) >= _MIN_LOOP_CHARS and _ONE_SOUND.search(said):  # "PAPAPA", "P-P-P-P"
        return True
    looping = len(encoded) > 40 and len(encoded) / len(zlib.compress(encoded)) > _MAX_COMPRESSION
    if looping and len(said) / max(0.2, seconds) > _BRISK_CHARS_PER_S:  # people do repeat themselves, at their own pace
        return True
    plain = re.sub(r"[^\w\s.]", "", said.lower()).strip(" .")
    return plain in _HALLUCINATED and (logprob < _SURE_LOGPROB or no_speech > _NO_SPEECH_TEXT[0][0])
