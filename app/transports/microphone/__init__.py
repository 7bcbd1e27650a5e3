"""The local microphone: a session on this machine's own sound card, with the assistant's echo taken out."""

from app.transports.microphone.devices import (
    AmbiguousDevice,
    DeviceError,
    Direction,
    NoDeviceError,
    describe_devices,
    find_device,
)
from app.transports.microphone.echo import EchoControl, choose_echo_control
from app.transports.microphone.seat import SoundPort, Switch
from app.transports.microphone.thread import reach_sound_system
from app.transports.microphone.transport import MicrophoneStats, MicrophoneTransport
from app.transports.microphone.wake import WakeWord, Waking, wake_words

__all__ = [
    "AmbiguousDevice",
    "DeviceError",
    "Direction",
    "EchoControl",
    "MicrophoneStats",
    "MicrophoneTransport",
    "NoDeviceError",
    "SoundPort",
    "Switch",
    "WakeWord",
    "Waking",
    "choose_echo_control",
    "describe_devices",
    "find_device",
    "reach_sound_system",
    "wake_words",
]
