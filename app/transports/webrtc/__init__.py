"""Calls from browsers and other WebRTC clients: sound both ways and a data channel of events."""

from app.transports.webrtc.calls import WebRtcCalls

__all__ = ["WebRtcCalls"]
