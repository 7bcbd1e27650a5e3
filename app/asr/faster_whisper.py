"""Whisper through CTranslate2 (faster-whisper), called on what was said rather than on 30 s.

``WhisperModel.transcribe`` pads every utterance to 30 s; encoding only the utterance and a margin costs a
quarter of that. Utterances that wait together are recognised in one batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asr.base import Transcript
from app.asr.guards import is_hallucinated, is_silent, without_loop
from app.asr.known import spelled_as
from app.asr.languages import choose_language, settled_language
from app.asr.partials import MAX_PARTIAL_S, PartialBudget
from app.asr.segments import last_part, split_at_quiet
from app.audio.batch import BatchWorker
from app.audio.frames import INPUT_RATE_HZ, Pcm
from app.audio.mel import HOP, WINDOW, log_mel
from app.config.settings import AsrSettings, RuntimeSettings
from app.errors import ModelError, Overloaded, StageError
from app.telemetry.memory import resident_mb
from app.telemetry.stage import StageReport

_FILES = ("model.bin", "config.json", "tokenizer.json")
_FRAMES_PER_S = 100
_MIN_FRAMES = 10 * _FRAMES_PER_S
"""Below 10 s of context words go wrong (8 s: in 8 of 101 sentences) and short ones loop ("Stop. Stop. Stop.")."""
_MARGIN_FRAMES = 3 * _FRAMES_PER_S
"""Silence after the last word. With 1 s one of ten utterances of 8 to 18 s ended in a loop, with 3 s none."""
_MAX_FRAMES = 30 * _FRAMES_PER_S
_BATCH_SPREAD_FRAMES = 5 * _FRAMES_PER_S
"""Utterances this much longer than the oldest waiting one go by themselves: all are padded to the longest."""
_SILENT_CELL = (np.log10(1e-10) + 4.0) / 4.0
"""What log_mel makes of no energy at all."""
_MAX_TOKENS = 220
_SPARE_TOKENS = 8
_MAX_TOKENS_PER_S = 16
"""Slow Hindi needs 12, quick English 8. What loops ends here."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Up to 28 s of one utterance."""

    pcm: Pcm
    language: str | None
    expected: str = ""
    partial: bool = False

    @property
    def seconds(self) -> float:
        return len(self.pcm) / INPUT_RATE_HZ

    @property
    def frames(self) -> int:
        """Mel frames to encode (10 ms each)."""
        spoken = len(self.pcm) * _FRAMES_PER_S // INPUT_RATE_HZ
        return min(_MAX_FRAMES, max(_MIN_FRAMES, spoken + _MARGIN_FRAMES))


class FasterWhisperRecognizer:
    """Any Whisper model in CTranslate2's format, on one thread of ours and ``asr_threads`` of its own."""

    def __init__(self, settings: AsrSettings, runtime: RuntimeSettings, model_folder: Path) -> None:
        self._settings = settings
        self._threads = runtime.asr_threads or os.cpu_count() or 1
        self._folder = model_folder
        self._whisper: Any = None
        self._partials = PartialBudget()
        self._worker: BatchWorker[_Piece, Transcript] = BatchWorker(
            "recogniser", self._recognise, max_waiting=settings.max_waiting, choose=self._choose
        )

    async def load(self) -> StageReport:
        began, memory = time.perf_counter(), resident_mb()
        noise = np.random.default_rng(0).integers(-2000, 2000, INPUT_RATE_HZ).astype(np.int16)
        await self._worker.submit([_Piece(noise, self._warm_up_language)])  # opens the model, off the loop
        loaded = time.perf_counter()
        await self._worker.submit([_Piece(noise, self._warm_up_language)] * 2)
        detail = f"faster-whisper {self._folder.name}, {self._settings.compute_type}, {self._device}"
        return StageReport("ASR", detail, loaded - began, time.perf_counter() - loaded, resident_mb() - memory)

    async def transcribe(
        self, pcm: Pcm, *, language: str | None = None, expected: str = "", known: str = "", partial: bool = False
    ) -> Transcript:
        """See Recognizer. Of a ``partial`` longer than 12 s only the end is heard, from a quiet place on, and the
        text is that of the end.

        Every word is decoded, known or not: CTranslate2 takes a step of full cost for each token of a given prefix
        too, and a wrong prefix would pass for heard. ``known`` settles the spelling only (app/asr/known.py)."""
        if language and not self._knows(language):
            raise StageError(f"Whisper knows no language {language[:20]!r}.")  # here, not among those of others
        if is_silent(pcm):
            return Transcript("", language or choose_language({}, self._settings.languages, expected), 0.0)
        if partial:
            self._admit_partial()
        sounds = [last_part(pcm, MAX_PARTIAL_S)] if partial else split_at_quiet(pcm)
        heard = await self._worker.submit([_Piece(sound, language, expected, partial) for sound in sounds])
        said = [transcript for transcript in heard if transcript.text]
        if not said:
            return Transcript("", heard[0].language, 0.0)
        confidence = sum(transcript.confidence for transcript in said) / len(said)
        text = spelled_as(known, " ".join(transcript.text for transcript in said))
        return Transcript(text, said[0].language, confidence)

    async def close(self) -> None:
        await self._worker.close()

    def _knows(self, language: str) -> bool:
        whisper = self._whisper
        return whisper is None or not whisper.model.is_multilingual or language in whisper.supported_languages

    @property
    def languages(self) -> tuple[str, ...]:
        return self._settings.languages if self._whisper.model.is_multilingual else ("en",)

    @property
    def _warm_up_language(self) -> str:
        return self._settings.languages[0] if self._settings.languages else "en"

    @property
    def _device(self) -> str:
        if self._settings.device != "auto":
            return self._settings.device
        import ctranslate2

        return "cuda" if ctranslate2.get_cuda_device_count() else "cpu"

    def _admit_partial(self) -> None:
        """Raises Overloaded unless a partial may begin at once."""
        if not self._worker.idle:
            raise Overloaded("the recogniser is at work; partial transcriptions wait for nobody", retry_after_s=0.2)
        if wait_s := self._partials.wait_s:
            raise Overloaded("partial transcriptions have had their share of the recogniser", retry_after_s=wait_s)

    def _choose(self, waiting: Sequence[_Piece]) -> Sequence[int]:
        """The oldest and those of like length; a partial only when nothing else waits."""
        final = [index for index, piece in enumerate(waiting) if not piece.partial]
        if not final:
            return [0]
        longest = waiting[final[0]].frames + _BATCH_SPREAD_FRAMES
        return [index for index in final if waiting[index].frames <= longest][: self._settings.max_batch]

    # On the worker's thread

    def _recognise(self, batch: Sequence[_Piece]) -> list[Transcript]:
        if self._whisper is None:
            self._whisper = self._open()
        if not batch[0].partial:
            return self._transcribe(batch)
        began = time.perf_counter()
        try:
            return self._transcribe(batch)
        finally:
            self._partials.spent(time.perf_counter() - began)

    def _transcribe(self, batch: Sequence[_Piece]) -> list[Transcript]:
        encoded = self._encode(batch)
        if batch[0].partial and self._worker.waiting:
            raise Overloaded("a final transcription came in between", retry_after_s=0.2)
        if not self._worker.wanted:  # the user has gone on: what they say next is not to wait for words nobody reads
            raise Overloaded("nobody waits for this transcription any more")
        languages = self._languages(batch, encoded)
        prompts = [self._prompt(language) for language in languages]
        longest_s = max(piece.seconds for piece in batch)
        results = self._whisper.model.generate(
            encoded,
            prompts,
            beam_size=self._settings.beam_size,
            # CTranslate2 makes at most half of it.
            max_length=2 * min(_MAX_TOKENS, _SPARE_TOKENS + int(longest_s * _MAX_TOKENS_PER_S)),
            return_scores=True,
            return_no_speech_prob=True,
            suppress_blank=True,
            suppress_tokens=[-1],
        )
        return [
            self._transcript(piece, language, result)
            for piece, language, result in zip(batch, languages, results, strict=True)
        ]

    def _open(self) -> Any:
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise ModelError(
                f"The Whisper model in {self._folder} lacks {', '.join(missing)} (asr.model). "
                "Run `python -m app models pull`, or give a folder in CTranslate2's format."
            )
        from faster_whisper import WhisperModel

        try:
            return WhisperModel(
                str(self._folder),
                device=self._device,
                compute_type=self._settings.compute_type,
                cpu_threads=self._threads,
                num_workers=1,
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"The Whisper model in {self._folder} cannot be loaded: {error}") from error

    def _encode(self, batch: Sequence[_Piece]) -> Any:
        frames = max(piece.frames for piece in batch)
        bands = len(self._whisper.feature_extractor.mel_filters)
        return self._whisper.encode(np.stack([_features(piece.pcm, frames, bands) for piece in batch]))

    def _languages(self, batch: Sequence[_Piece], encoded: Any) -> list[str]:
        if not self._whisper.model.is_multilingual:
            return ["en"] * len(batch)
        allowed = self._settings.languages
        settled = [piece.language or settled_language(allowed, piece.expected, piece.seconds) for piece in batch]
        if all(settled):
            return settled
        detected = self._whisper.model.detect_language(encoded)  # costs as much as three tokens
        shares = [{token.strip("<|>"): share for token, share in ranked} for ranked in detected]
        return [
            language or choose_language(likely, allowed, piece.expected)
            for language, likely, piece in zip(settled, shares, batch, strict=True)
        ]

    def _prompt(self, language: str) -> list[int]:
        from faster_whisper.tokenizer import Tokenizer

        multilingual = self._whisper.model.is_multilingual
        tokenizer = Tokenizer(self._whisper.hf_tokenizer, multilingual, task="transcribe", language=language)
        return [*tokenizer.sot_sequence, tokenizer.no_timestamps]

    def _transcript(self, piece: _Piece, language: str, result: Any) -> Transcript:
        tokens = [token for token in result.sequences_ids[0] if token < self._end_of_text]
        no_speech = float(result.no_speech_prob)
        text = self._whisper.hf_tokenizer.decode(tokens).strip()
        text = without_loop(text, no_speech=no_speech, seconds=piece.seconds)
        # CTranslate2's score is the mean over the tokens without the end, of a sum with it (as faster-whisper undoes it).
        count = len(result.sequences_ids[0])
        logprob = float(result.scores[0]) * count / (count + 1)
        if not text or is_hallucinated(text, no_speech=no_speech, logprob=logprob, seconds=piece.seconds):
            return Transcript("", language, 0.0)
        return Transcript(text, language, exp(min(0.0, logprob)))

    @property
    def _end_of_text(self) -> int:
        """Ids from here on are control tokens, not words."""
        return int(self._whisper.hf_tokenizer.token_to_id("<|endoftext|>"))


def _features(pcm: Pcm, frames: int, bands: int) -> NDArray[np.float32]:
    """Whisper's features of ``pcm`` followed by silence up to ``frames``: ``[bands, frames]``.

    The silence is filled in, not computed: it is where the scale ends below (app/audio/mel.py), two under the loudest.
    """
    sounding = np.zeros(len(pcm) // HOP * HOP + WINDOW // HOP * HOP + HOP, np.float32)
    sounding[: len(pcm)] = pcm * np.float32(1 / 32768)
    heard = log_mel(sounding, bands)[:, :frames]
    features = np.full((bands, frames), max(float(heard.max()) - 2.0, _SILENT_CELL), np.float32)
    features[:, : heard.shape[1]] = heard
    return features
