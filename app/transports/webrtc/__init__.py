"""Calls from browsers and other WebRTC clients: sound both ways and a data channel of events."""

from app.transports.webrtc.calls import WebRtcCalls
from app.transports.webrtc.probe import Probes

__all__ = ["Probes", "WebRtcCalls"]
