"""Hearing: utterances become text."""

from app.asr.base import Recognizer, Transcript

__all__ = ["Recognizer", "Transcript"]
