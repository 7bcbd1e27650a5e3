"""From the settings tree to what the machine and its requests need."""

from __future__ import annotations

from app.audio.frames import INPUT_RATE_HZ
from app.config import Settings
from app.dialogue.state import Limits
from app.llm import Sampling
from app.llm.memory import Budget

_PLAYBACK_TIMEOUT_S = 5.0
"""A transport takes a frame every 20 ms; one that has not for this long is not going to."""


def limits(settings: Settings, *, has_turn_model: bool) -> Limits:
    turn, vad = settings.turn, settings.vad
    return Limits(
        silence_s=vad.silence_ms / 1000,
        pre_roll_samples=vad.pre_roll_ms * INPUT_RATE_HZ // 1000,
        turn_threshold=turn.threshold if has_turn_model else None,
        turn_wait_s=(turn.max_wait_ms if has_turn_model else turn.silence_ms) / 1000,
        barge_in_s=turn.barge_in_ms / 1000,
        max_utterance_s=turn.max_utterance_s,
        recognition_timeout_s=settings.asr.timeout_s,
        first_text_timeout_s=settings.llm.first_token_timeout_s,
        stall_timeout_s=settings.llm.stall_timeout_s,
        sound_timeout_s=settings.tts.timeout_s,
        playback_timeout_s=_PLAYBACK_TIMEOUT_S,
        idle_timeout_s=settings.server.idle_timeout_s,
    )


def budget(settings: Settings, context_tokens: int) -> Budget:
    """``context_tokens`` is what the language model can take."""
    llm = settings.llm
    return Budget(context_tokens, llm.max_tokens, llm.summarise_at)


def sampling(settings: Settings) -> Sampling:
    llm = settings.llm
    return Sampling(
        max_tokens=llm.max_tokens,
        temperature=llm.temperature,
        top_p=llm.top_p,
        top_k=llm.top_k,
        repetition_penalty=llm.repetition_penalty,
    )
