"""Tells the assistant's own voice, come back through the user's microphone, from the user's."""

from __future__ import annotations

from app.audio.frames import Pcm


class EchoGuard:
    """One conversation's. On top of the client's own echo canceller, which may be missing or still adapting.

    Both sides are heard at the transport's pace: ``played`` as sound leaves for the listener, ``clean`` as the
    user's sound arrives. All calls belong on the session's event loop; each is far below a millisecond.
    """

    def played(self, pcm: Pcm) -> None:
        """The assistant's sound (int16 ``[n]``, 48 kHz) that has just left, as loud as it left."""

    def clean(self, frame: Pcm) -> Pcm:
        """``frame`` (int16 ``[320]``, 16 kHz), or silence in its place where the assistant's voice explains it."""
        return frame
