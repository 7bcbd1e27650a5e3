"""A case as sound, with the truth about it to the sample."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.bench.turns.cases import Background, Case, Excerpt, Gap, Hummed, Made, Part, Phrase, Say
from app.bench.turns.hums import hum
from app.bench.turns.recordings import Recordings
from app.bench.turns.sounds import at_level, mixed, noise, pauses_near, silence, trimmed
from app.bench.turns.voices import SPEECH_RMS, Speakers

_LEAD_S = 0.6
"""A session hears the room before anybody speaks; over the assistant it has heard it already."""
_AFTER_S = 12.0
"""How long a background noise goes on after the user."""


@dataclass(frozen=True, slots=True)
class Scene:
    """``sound`` is what the user's microphone hears (echo apart), int16 ``[n]``, 16 kHz.

    ``marks`` are (first, end) samples of all that sounds in it, speech or noise, without the background.
    """

    sound: Pcm
    marks: tuple[tuple[int, int], ...]

    @property
    def onset(self) -> int:
        """First sample of what happens."""
        return self.marks[0][0] if self.marks else 0

    @property
    def end(self) -> int:
        """Where it is over: for speech, the first sample after the last of the turn."""
        return self.marks[-1][1] if self.marks else len(self.sound)


def render(case: Case, speakers: Speakers, recordings: Recordings) -> Scene:
    """The same samples for the same case, always."""
    track = [silence(0.0 if case.over_s is not None else _LEAD_S)]
    marks: list[tuple[int, int]] = []
    at = len(track[0])
    for part in case.parts:
        for piece, sounds in _pieces(case, part, speakers, recordings):
            if sounds:
                marks.append((at, at + len(piece)))
            track.append(piece)
            at += len(piece)
    sound = np.concatenate(track)
    if case.background is not None:
        sound = _over_background(sound, case.background, _seed(case))
    return Scene(sound, tuple(marks))


def _pieces(case: Case, part: Part, speakers: Speakers, recordings: Recordings) -> list[tuple[Pcm, bool]]:
    """The part's sound in pieces, and of each whether it sounds."""
    match part:
        case Gap():
            return [(silence(part.ms / 1000), False)]
        case Made():
            return [
                (at_level(noise(part.kind, part.seconds, _seed(case)), SPEECH_RMS * 10 ** (part.level_db / 20)), True)
            ]
        case Hummed():
            return [(_levelled(hum(part.kind, part.hertz)), True)]
        case Phrase():
            return [(_levelled(recordings.phrase(part.name)), True)]
        case Excerpt():
            return [(_levelled(recordings.excerpt(part.start_s, part.end_s)), True)]
        case Say():
            return _with_pauses(part, speakers)


def _levelled(sound: Pcm) -> Pcm:
    return at_level(trimmed(sound), SPEECH_RMS)


def _with_pauses(part: Say, speakers: Speakers) -> list[tuple[Pcm, bool]]:
    said = part.text.split("|")
    text = " ".join(piece.strip() for piece in said)
    sound = speakers.say(text, part.voice)
    places = [len("".join(said[:count])) / len("".join(said)) for count in range(1, len(said))]
    pieces: list[tuple[Pcm, bool]] = []
    done = 0
    for (first, end), pause_ms in zip(pauses_near(sound, places), part.pauses_ms, strict=True):
        pieces += [(trimmed(sound[done:first]), True), (silence(pause_ms / 1000), False)]
        done = end
    return [*pieces, (trimmed(sound[done:]), True)]


def _over_background(sound: Pcm, background: Background, seed: int) -> Pcm:
    seconds = len(sound) / INPUT_RATE_HZ + _AFTER_S
    rms = SPEECH_RMS * 10 ** (-background.snr_db / 20)
    return mixed(sound, at_level(noise(background.kind, seconds, seed), rms))


def _seed(case: Case) -> int:
    return zlib.crc32(case.name.encode())
