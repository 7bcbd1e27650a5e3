"""Sound devices: what there is, which one is meant, and what its refusals mean in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

from app.errors import ParleyError

Direction: TypeAlias = Literal["input", "output"]

_NO_DEVICE_REMEDY = (
    "Connect one, or talk without it: `python -m app --text` to type, `python -m app talk question.wav` for sound files, "
    "`python -m app serve` for the browser page."
)


class DeviceError(ParleyError):
    """A sound device is missing, was taken away, or refuses what is asked of it."""

    code = "audio_device"


class NoDeviceError(DeviceError):
    """There is no usable sound device at all."""

    code = "no_audio_device"


class AmbiguousDevice(DeviceError):
    """More than one device may be meant."""


@dataclass(frozen=True, slots=True)
class Device:
    """One sound device. ``rate_hz`` is what it runs at by itself; a device may have both directions."""

    index: int
    name: str
    inputs: int
    outputs: int
    rate_hz: int
    default_input: bool
    default_output: bool

    def channels(self, direction: Direction) -> int:
        return self.inputs if direction == "input" else self.outputs

    def is_default(self, direction: Direction) -> bool:
        return self.default_input if direction == "input" else self.default_output


def portaudio() -> ModuleType:
    """The sounddevice module; NoDeviceError when it or the PortAudio library is missing."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise NoDeviceError(
            f"Sound devices cannot be used: {error}. Install PortAudio (Debian: `sudo apt install libportaudio2 "
            f"libasound2-plugins`; macOS: `brew install portaudio`). {_NO_DEVICE_REMEDY}"
        ) from error
    module: ModuleType = sounddevice
    return module


def rescan() -> None:
    """Make PortAudio look for devices again. No stream may be open; blocks for up to some 100 ms."""
    sounddevice: Any = portaudio()
    sounddevice._terminate()
    sounddevice._initialize()


def list_devices() -> list[Device]:
    """Every device with at least one channel, in PortAudio's order."""
    sounddevice: Any = portaudio()
    default_input, default_output = sounddevice.default.device
    return [
        Device(
            index=int(found["index"]),
            name=str(found["name"]),
            inputs=int(found["max_input_channels"]),
            outputs=int(found["max_output_channels"]),
            rate_hz=int(found["default_samplerate"]),
            default_input=found["index"] == default_input,
            default_output=found["index"] == default_output,
        )
        for found in sounddevice.query_devices()
        if found["max_input_channels"] or found["max_output_channels"]
    ]


def find_device(wanted: str, direction: Direction, *, named_by: str = "") -> Device:
    """The device whose index is, or whose name contains, ``wanted`` (any case); the default one for "".

    ``named_by`` is the flag or key that asked for it. Raises NoDeviceError when no device has that direction,
    DeviceError when none matches ``wanted``, or several that are not the same.
    """
    named_by = named_by or f"audio.{direction}_device"
    usable = [device for device in list_devices() if device.channels(direction)]
    noun = _noun(direction)
    if not usable:
        raise NoDeviceError(f"No {noun} found. {_NO_DEVICE_REMEDY}")
    if not wanted:
        return next((device for device in usable if device.is_default(direction)), usable[0])
    if wanted.isdecimal():
        matches = [device for device in usable if device.index == int(wanted)]
    else:
        matches = [device for device in usable if wanted.casefold() in device.name.casefold()]
    if not matches:
        raise DeviceError(f"{named_by}: no {noun} matches {wanted!r}. There are: {_listed(usable)}.")
    exact = [device for device in matches if device.name == wanted]
    shortest = min((device.name for device in matches), key=len)
    # Windows shows a device once for each of its sound systems, and one of them cuts the name off.
    if not exact and not all(device.name.startswith(shortest) for device in matches):
        raise AmbiguousDevice(f"{named_by}: {wanted!r} may be {_listed(matches)}; give more of the name, or the index.")
    return (exact or matches)[0]


def _listed(devices: list[Device]) -> str:
    return ", ".join(f"{device.index} {device.name!r}" for device in devices)


def describe_devices() -> str:
    """The table that ``--list-devices`` prints."""
    lines = [
        f"{device.index:>3}  {device.name}  ({device.inputs} in, {device.outputs} out, {device.rate_hz} Hz)"
        + ("  default microphone" if device.default_input else "")
        + ("  default speaker" if device.default_output else "")
        for device in list_devices()
    ]
    return "\n".join(lines) if lines else f"No sound devices found. {_NO_DEVICE_REMEDY}"


def explain(error: Exception, device: Device, direction: Direction) -> str:
    """What PortAudio's error means for ``device``, and what to do about it.

    Codes: PaErrorCode in portaudio.h.
    """
    code = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], int) else 0
    said = error.args[0] if error.args else error
    remedy = {
        -9997: "it refuses this sample rate; choose another device",
        -9998: "it refuses this number of channels; choose another device",
        -9996: "it is no longer there; plug it in again or choose another device",
        -9985: "it is in use by another program or was unplugged; close that program or plug it in again",
    }.get(code, f"{said}; see that the sound server runs and no other program holds it")
    return (
        f"The {_noun(direction)} {device.name!r} cannot be used: {remedy} "
        f"(`python -m app --list-devices`, `--{direction}-device`)."
    )


def _noun(direction: Direction) -> str:
    return "microphone" if direction == "input" else "speaker"
