"""The local microphone: a session on this machine's own sound card, with the assistant's echo taken out."""

from app.transports.microphone.devices import DeviceError, NoDeviceError, describe_devices, find_device
from app.transports.microphone.echo import EchoControl, choose_echo_control
from app.transports.microphone.seat import SoundPort, Switch
from app.transports.microphone.transport import MicrophoneStats, MicrophoneTransport
from app.transports.microphone.wake import WakeWord, Waking, wake_words

__all__ = [
    "DeviceError",
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
    "wake_words",
]
