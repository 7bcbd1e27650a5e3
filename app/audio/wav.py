"""Sound files: anything PCM in, 16 kHz mono out of them; WAV out."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
import soundfile

from app.audio.frames import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Pcm
from app.audio.resample import MAX_RATE_HZ, MIN_RATE_HZ, downmix, resample
from app.errors import InvalidRequest

Source: TypeAlias = str | os.PathLike[str] | bytes
MAX_SECONDS = 600
"""Longest file that is read: a wrong file must not take all memory."""


def read_wav(source: Source, rate_hz: int = INPUT_RATE_HZ) -> Pcm:
    """The sound of a PCM WAV (8 to 32 bit or float, mono or more channels), mono int16 at ``rate_hz``.

    ``source`` is a path or the file's bytes. Raises InvalidRequest when it is missing, no sound file,
    cut off in its header, empty, or longer than MAX_SECONDS.
    """
    name = "the WAV data" if isinstance(source, bytes) else os.fspath(source)
    if not isinstance(source, bytes) and not Path(source).is_file():
        raise InvalidRequest(f"{name} does not exist or is not a file")
    try:
        with soundfile.SoundFile(io.BytesIO(source) if isinstance(source, bytes) else os.fspath(source)) as file:
            rate, channels, frames = file.samplerate, file.channels, file.frames
            if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
                raise InvalidRequest(f"{name} is at {rate} Hz; {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz can be read")
            if frames > MAX_SECONDS * rate:
                raise InvalidRequest(f"{name} lasts {frames / rate:.0f} s; at most {MAX_SECONDS} s can be read")
            samples = file.read(dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise InvalidRequest(f"{name} is not a sound file that can be read ({error}); give a PCM WAV") from error
    if not len(samples):
        raise InvalidRequest(f"{name} holds no sound")
    # Clipped here: libsndfile wraps floats beyond full scale around when it makes integers of them.
    whole = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
    return resample(downmix(whole.reshape(-1), channels), rate, rate_hz)


def write_wav(path: str | os.PathLike[str], pcm: Pcm, rate_hz: int = OUTPUT_RATE_HZ) -> None:
    """Write mono 16-bit WAV. Raises InvalidRequest when the place cannot be written."""
    try:
        soundfile.write(os.fspath(path), pcm, rate_hz, subtype="PCM_16", format="WAV")
    except (soundfile.LibsndfileError, OSError) as error:
        raise InvalidRequest(f"{os.fspath(path)} cannot be written ({error}); check folder and permissions") from error


def wav_bytes(pcm: Pcm, rate_hz: int = INPUT_RATE_HZ) -> bytes:
    """A mono 16-bit WAV file in memory."""
    buffer = io.BytesIO()
    soundfile.write(buffer, pcm, rate_hz, subtype="PCM_16", format="WAV")
    return buffer.getvalue()
