"""What a voice should say for what a language model wrote.

Small pure transforms over ``Tracked`` text, each in the file of its subject, chained by ``speakable``.
"""

from app.tts.speakable.pipeline import Spoken, speakable

__all__ = ["Spoken", "speakable"]
