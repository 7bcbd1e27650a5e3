"""Whisper writes something about every sound, silence too. This tells words from inventions.

Thresholds were measured with Whisper base at 10 s and 30 s of context. Fans, white and pink noise,
coughs, clicks, music and silence: no-speech 0.47 to 0.95 with a mean log-probability of -0.5 to -2.4
(low together with high). Spoken words, single ones and at 20 dB over noise included: no-speech 0.0 to
0.5 with -0.0 to -0.9; whole sentences above -0.7, badly recognised languages down to -1.3 at 0.06.
"""

from __future__ import annotations

import zlib

REPETITION = 2.4
"""Compression ratio above which a text repeats itself (Whisper paper, section 4.5)."""
_NEVER_SPEECH_BELOW = -1.45
_RULES = ((0.65, -0.4), (0.45, -0.9))
"""(no-speech above, mean log-probability below): both together are no speech."""


def is_speech(log_prob: float, no_speech: float) -> bool:
    """Whether a text with this mean log-probability and no-speech probability was really said."""
    if log_prob < _NEVER_SPEECH_BELOW:
        return False
    return not any(no_speech > silence and log_prob < doubt for silence, doubt in _RULES)


def is_repetitive(text: str) -> bool:
    """Whether the decoder has got caught in a loop ("P-P-P-P...")."""
    data = text.encode()
    return len(data) > REPETITION * len(zlib.compress(data))


def may_loop(seconds: float) -> int:
    """Most tokens that ``seconds`` of speech can need: bounds what a loop costs.

    English needs 4 a second, scripts written in bytes (Hindi, Thai) up to 25.
    """
    return min(440, 24 + int(30 * seconds))
