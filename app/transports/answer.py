"""What a client gets back for its offer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to an SDP offer. ``call_id`` is unguessable: knowing it is the right to hang up."""

    sdp: str
    type: str
    call_id: str
