"""Tells the assistant's own voice, come back through the user's microphone, from the user's."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from app.audio.frames import INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.telemetry.log import log_event

_log = logging.getLogger("parley.echo")

_AUDIBLE = 64
"""Peak (of 32768) above which what was played can be heard back: -54 dBFS."""
_LINGERS_FRAMES = 40
"""0.8 s: an echo on its way for 0.4 s, in a room that sounds on for as long."""
_BLOCK_MS = 10
"""The only length of sound that WebRTC's audio processing accepts."""
_SLACK_FRAMES = 1
"""So much later than it was played is a frame shown to the canceller, so that jitter leaves none missing; 20 ms, as
what has not been shown cannot be cancelled."""
_MOST_WAITING = 50
"""Played frames kept for a user's side that has stalled: 1 s."""
_TIDY_FRAMES = 250
"""How often (5 s) it is looked whether played frames wait for good: the user's side has then lost some."""
_MOSTLY_ECHO = 10.0**-0.8
"""A frame of which the canceller leaves less power than this (-8 dB) was an echo; the rest is what it missed..."""
_MOSTLY_USER = 10.0**-0.3
"""...and one of which it leaves more than this (-3 dB) is the user's, who then gets the benefit of the doubt..."""
_USER_FRAMES = 20
"""...for 0.4 s, so that no consonant is lost while both speak."""
_USER_POWER = 100.0**2 * INPUT_FRAME
"""Of a frame: nobody speaks more quietly (-50 dBFS)."""
_NO_ECHO = 10.0**-3.6
"""Where the user's side is 36 dB below the assistant's, nothing comes back: they wear headphones, say..."""
_NO_ECHO_FRAMES = 40
"""...if that holds for 0.8 s of a reply. The canceller takes longer to see it, and mutes the user meanwhile."""
_FAR_SMOOTHING = 0.05
_NEAR_FADE = 0.9
_SILENT_FRAME: Pcm = np.zeros(OUTPUT_FRAME, np.int16)


class EchoGuard:
    """One conversation's. On top of the client's own echo canceller, which may be missing or still adapting.

    Both sides are heard at the transport's pace: ``played`` as sound leaves for the listener, ``clean`` as the
    user's sound arrives. All calls belong on the session's event loop; each is far below a millisecond.

    WebRTC's echo canceller (AEC3, of the ``livekit`` package) does the work, as long as the assistant is heard: it
    finds the delay itself (up to 0.5 s) and follows it. Both sides are counted, not clocked: one played frame is
    given to it for each that arrives, so that frames which come in bursts after a stall keep their distance.
    Measured per frame: 0.16 ms while the assistant is heard, 4 us otherwise; 0.5 MB.
    """

    def __init__(self) -> None:
        self._module = _new_canceller()
        self._waiting: deque[Pcm] = deque([_SILENT_FRAME] * _SLACK_FRAMES, maxlen=_MOST_WAITING)
        self._part: Pcm = np.zeros(0, np.int16)
        self._arrived = 0
        """Played frames since the last frame of the user."""
        self._missed = 0
        """Played frames that were not there when their turn came."""
        self._never_needed = _MOST_WAITING
        """Least that was left waiting since the last tidying."""
        self._tidy_in = _TIDY_FRAMES
        self._active_frames = 0
        self._user_frames = 0
        """How long the user still gets the benefit of the doubt."""
        self._far_power = 0.0
        """Of a frame of the assistant's, on average over the last 0.4 s."""
        self._near_peak = 0.0
        """Of a frame of the user's: the most of late, fading by 23 dB a second."""
        self._no_echo_frames = 0

    @property
    def active(self) -> bool:
        """Whether an echo of the assistant may be heard now."""
        return self._active_frames > 0

    def played(self, pcm: Pcm) -> None:
        """The assistant's sound (int16 ``[n]``, 48 kHz) that has just left, as loud as it left; silence too."""
        if self._module is None or not len(pcm):
            return
        if int(pcm.max()) > _AUDIBLE or int(pcm.min()) < -_AUDIBLE:
            self._active_frames = _LINGERS_FRAMES
        if len(self._part):
            pcm = np.concatenate([self._part, pcm])
        whole = len(pcm) // OUTPUT_FRAME * OUTPUT_FRAME
        for frame in pcm[:whole].reshape(-1, OUTPUT_FRAME):
            self._waiting.append(frame)
            self._arrived += 1
            if self._missed and self._arrived > 1:
                self._missed -= 1
                self._waiting.popleft()  # it comes late, in a burst: its turn was passed over
        self._part = pcm[whole:]

    def clean(self, frame: Pcm) -> Pcm:
        """``frame`` (int16 ``[320]``, 16 kHz) without the assistant's voice; as it is while none is to be heard."""
        if self._module is None:
            return frame
        far = self._next_played()
        if not self._active_frames:
            return frame
        self._active_frames -= 1
        try:
            cleaned = self._cancel(far, frame)
        except RuntimeError as error:  # what the library raises; an echo is a smaller evil than a broken call
            log_event(_log, "echo_canceller_broke", level=logging.ERROR, error=error)
            self._module = None
            return frame
        return frame if self._nothing_comes_back(far, frame) else cleaned

    def _nothing_comes_back(self, far: Pcm, near: Pcm) -> bool:
        """Whether this reply has been heard long enough without an echo. Holds until its end."""
        self._far_power += _FAR_SMOOTHING * (_power(far[::3]) - self._far_power)
        self._near_peak = max(self._near_peak * _NEAR_FADE, _power(near))
        if not self._active_frames:
            self._no_echo_frames = 0
        elif self._no_echo_frames < _NO_ECHO_FRAMES:
            quiet = self._near_peak < _NO_ECHO * self._far_power
            self._no_echo_frames = self._no_echo_frames + 1 if quiet else 0
        return self._no_echo_frames == _NO_ECHO_FRAMES

    def _next_played(self) -> Pcm:
        self._arrived = 0
        if not self._waiting:
            self._missed += 1
            self._never_needed = 0
            return _SILENT_FRAME
        self._missed = 0
        far = self._waiting.popleft()
        self._never_needed = min(self._never_needed, max(0, len(self._waiting) - _SLACK_FRAMES))
        self._tidy_in -= 1
        if not self._tidy_in:
            for _ in range(self._never_needed):
                self._waiting.popleft()
            self._tidy_in = _TIDY_FRAMES
            self._never_needed = _MOST_WAITING
        return far

    def _cancel(self, far: Pcm, near: Pcm) -> Pcm:
        for block in _blocks(far, OUTPUT_RATE_HZ):
            self._module.process_reverse_stream(block)
        cleaned = []
        for block in _blocks(near, INPUT_RATE_HZ):
            self._module.process_stream(block)  # in place
            cleaned.append(np.frombuffer(block.data, np.int16))
        sound = np.concatenate(cleaned)
        power, share = _power(sound), _power(sound) / max(1.0, _power(near))
        self._user_frames = _USER_FRAMES if share > _MOSTLY_USER and power > _USER_POWER else self._user_frames - 1
        return sound if self._user_frames > 0 or share > _MOSTLY_ECHO else np.zeros_like(sound)


def _power(pcm: Pcm) -> float:
    wave = pcm.astype(np.float32)
    return float(wave @ wave)


def _new_canceller() -> Any:
    """None where the library is missing: then only the words tell an echo from a user.

    No noise suppression and no gain control: the recogniser is better off without either.
    """
    try:
        from livekit import rtc

        return rtc.AudioProcessingModule(echo_cancellation=True, high_pass_filter=True)
    except Exception as error:  # whatever a native library raises on a machine that it was not made for
        log_event(_log, "no_echo_canceller", level=logging.WARNING, error=error)
        return None


def _blocks(pcm: Pcm, rate_hz: int) -> Iterator[Any]:
    from livekit import rtc

    length = rate_hz * _BLOCK_MS // 1000
    for start in range(0, len(pcm) - length + 1, length):
        # A bytearray, because the module writes into the frame's own memory.
        yield rtc.AudioFrame(bytearray(pcm[start : start + length].tobytes()), rate_hz, 1, length)
