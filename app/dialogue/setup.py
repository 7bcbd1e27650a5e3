"""From the settings tree to what the machine and its requests need."""

from __future__ import annotations

from app.audio.frames import INPUT_RATE_HZ
from app.config import Settings
from app.config.settings import TurnSettings
from app.dialogue.state import Limits
from app.dialogue.words.endpoint import Patience
from app.llm import Sampling
from app.llm.memory import Budget

_PLAYBACK_TIMEOUT_S = 5.0
"""A transport takes a frame every 20 ms; one that has not for this long is not going to."""


def limits(settings: Settings, *, has_turn_model: bool) -> Limits:
    turn, vad = settings.turn, settings.vad
    return Limits(
        silence_s=vad.silence_ms / 1000,
        pre_roll_samples=vad.pre_roll_ms * INPUT_RATE_HZ // 1000,
        partial_s=settings.asr.partial_ms / 1000,
        look_s=turn.look_ms / 1000,
        patience=_patience(turn) if has_turn_model else None,
        turn_wait_s=(turn.max_wait_ms if has_turn_model else turn.silence_ms) / 1000,
        early_replies=turn.early_replies,
        barge_in_s=turn.barge_in_ms / 1000,
        barge_in_max_s=turn.barge_in_max_ms / 1000,
        max_utterance_s=turn.max_utterance_s,
        recognition_timeout_s=settings.asr.timeout_s,
        first_text_timeout_s=settings.llm.first_token_timeout_s,
        stall_timeout_s=settings.llm.stall_timeout_s,
        sound_timeout_s=settings.tts.timeout_s,
        playback_timeout_s=_PLAYBACK_TIMEOUT_S,
        connect_timeout_s=settings.server.connect_timeout_s,
        idle_timeout_s=settings.server.idle_timeout_s,
        away_s=settings.assistant.away_prompt_s,
        filler_s=settings.assistant.filler_after_s,
        hang_up_on_goodbye=settings.assistant.hang_up_on_goodbye,
        farewell=settings.assistant.farewell,
        resume_s=settings.server.resume_s,
    )


def _patience(turn: TurnSettings) -> Patience:
    return Patience(
        complete_s=turn.look_ms / 1000,
        unfinished_s=turn.unfinished_ms / 1000,
        longest_s=turn.max_wait_ms / 1000,
        threshold=turn.threshold,
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
