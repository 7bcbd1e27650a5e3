"""Reads a saved turn. The file comes from somebody else: nothing in it is believed before it has been looked at."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import numpy as np
import soundfile
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.audio.frames import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Pcm
from app.errors import InvalidRequest
from app.telemetry.turns.bundle import FORMAT

_MIB = 2**20
_MAX_FILE = 256 * _MIB
_MAX_TEXT = 32 * _MIB
"""Of the members that are not sound, unpacked."""
_MAX_SOUND_S = 900
_WANTED = ("turn.json", "events.jsonl", "stages.json", "config.json")
_MAX_EVENTS = 100_000

Count: TypeAlias = Annotated[int, Field(ge=0)]
Seconds: TypeAlias = Annotated[float, Field(ge=-3600, le=3600)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class SoundFacts(_Part):
    rate_hz: int = Field(ge=8000, le=192_000)
    samples: int = Field(ge=0)
    clock: tuple[tuple[Count, Seconds], ...] = ()
    """(sample, seconds) of each block as it came or went."""


class HistoryItem(_Part):
    id: str
    role: Literal["user", "assistant"]
    text: str
    pinned: bool = False
    unheard: str = ""
    shown: bool = False


class MemoryFacts(_Part):
    start: Count = 0
    summary: str = ""
    summarised_to: Count = 0
    left_out: bool = False


class Options(_Part):
    instructions: str | None = None
    voice: str = ""
    speed: Annotated[float | None, Field(ge=0.5, le=2.0)] = None
    language: str = ""
    turn_detection: Literal["auto", "manual"] = "auto"
    spoken: bool = True


class Facts(_Part):
    """turn.json"""

    format: int
    response_id: str
    parley: str = ""
    versions: dict[str, str] = {}
    saved_at: str = ""
    done_s: Seconds
    missing_s: float = 0.0
    sound: dict[str, SoundFacts]
    options: Options = Options()
    history: tuple[HistoryItem, ...] = ()
    memory: MemoryFacts = MemoryFacts()
    items: Count = 0


class Event(_Part):
    """A line of events.jsonl."""

    at_s: Seconds
    side: Literal["server", "client"] = Field(alias="from")
    event: dict[str, Any]


class Call(_Part):
    """An entry of stages.json."""

    stage: Literal["asr", "turn", "llm", "tts", "phrase"]
    at_s: Seconds
    asked: dict[str, Any]
    answers: tuple[tuple[Seconds, Any], ...] = ()
    ended_s: Seconds | None = None
    ending: Literal["", "done", "failed", "cut"] = ""
    error: dict[str, str] = {}
    rate_hz: Annotated[int, Field(ge=0, le=192_000)] = 0


@dataclass(frozen=True, slots=True)
class Bundle:
    """One saved turn. Times are seconds since its sound begins; PCM is int16."""

    facts: Facts
    events: tuple[Event, ...]
    calls: tuple[Call, ...]
    settings: Mapping[str, Any]
    heard: Pcm
    """From the client, 16 kHz."""
    said: Pcm
    """To the client, 48 kHz."""
    voice: Pcm
    """What the voice answered, joined."""
    phrases: Pcm
    """Parley's own lines, joined, 48 kHz."""

    @property
    def seconds(self) -> float:
        return max(len(self.heard) / INPUT_RATE_HZ, len(self.said) / OUTPUT_RATE_HZ)


def read_bundle(path: Path) -> Bundle:
    """Raises InvalidRequest that says what is wrong with the file."""
    return _Reader(path).read()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Bundle:
        try:
            if self._path.stat().st_size > _MAX_FILE:
                self._refuse(f"it has more than {_MAX_FILE // _MIB} MiB")
            with zipfile.ZipFile(self._path) as archive:
                return self._bundle(archive)
        except OSError as error:
            raise InvalidRequest(f"{self._path} cannot be read: {error.strerror or error}.") from None
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as error:
            self._refuse(f"it is no zip file that can be read ({error})")
        except Exception as error:
            if isinstance(error, InvalidRequest):
                raise
            if type(error).__module__ == "zlib":  # its only exception has no public base
                self._refuse(f"it is damaged ({error})")
            raise

    def _bundle(self, archive: zipfile.ZipFile) -> Bundle:
        names = archive.namelist()
        if len(set(names)) != len(names):
            self._refuse("a member is there twice")
        for name in names:
            if "/" in name or "\\" in name:
                self._refuse(f"there are no folders in one, and this has {name[:80]!r}")
        if missing := [name for name in _WANTED if name not in names]:
            self._refuse(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        plain = self._json(archive, "turn.json")
        version = plain.get("format") if isinstance(plain, dict) else None
        if version != FORMAT:
            self._refuse(f"its format is {str(version)[:20]}, and this Parley (reads {FORMAT}) is older or newer")
        facts = self._checked(TypeAdapter(Facts), plain, "turn.json")
        settings = self._json(archive, "config.json")
        if not isinstance(settings, dict):
            self._refuse("config.json is no object")
        calls = self._checked(TypeAdapter(tuple[Call, ...]), self._json(archive, "stages.json"), "stages.json")
        sounds = {name: self._sound(archive, name, facts) for name in ("in", "out", "voice", "phrases")}
        self._check_calls(calls, len(sounds["voice"]), len(sounds["phrases"]))
        return Bundle(
            facts,
            self._events(archive),
            calls,
            settings,
            heard=sounds["in"],
            said=sounds["out"],
            voice=sounds["voice"],
            phrases=sounds["phrases"],
        )

    def _events(self, archive: zipfile.ZipFile) -> tuple[Event, ...]:
        lines = self._text(archive, "events.jsonl").splitlines()
        if len(lines) > _MAX_EVENTS:
            self._refuse(f"events.jsonl has more than {_MAX_EVENTS} lines")
        read = [self._parsed(line, f"events.jsonl, line {number}") for number, line in enumerate(lines, 1) if line]
        events: tuple[Event, ...] = self._checked(TypeAdapter(tuple[Event, ...]), read, "events.jsonl")
        if any(not isinstance(event.event.get("type"), str) for event in events):
            self._refuse("events.jsonl: an event has no type")
        return events

    def _check_calls(self, calls: tuple[Call, ...], voice: int, phrases: int) -> None:
        """The counts of samples in stages.json must be those of the sound."""
        for stage, there in (("tts", voice), ("phrase", phrases)):
            counts = [answer for call in calls if call.stage == stage for _, answer in call.answers]
            if not all(isinstance(count, int) and 0 <= count <= there for count in counts) or sum(counts) != there:
                self._refuse(f"stages.json and the sound of {stage} do not agree")

    def _sound(self, archive: zipfile.ZipFile, name: str, facts: Facts) -> Pcm:
        told = facts.sound.get(name)
        member = f"{name}.flac"
        if member not in archive.namelist():
            if told is not None and told.samples:
                self._refuse(f"{member} is missing")
            return np.zeros(0, np.int16)
        if told is None:
            self._refuse(f"turn.json says nothing of {member}")
        wanted = {"in": INPUT_RATE_HZ, "out": OUTPUT_RATE_HZ, "phrases": OUTPUT_RATE_HZ}.get(name, told.rate_hz)
        limit = _MAX_SOUND_S * told.rate_hz
        try:
            with soundfile.SoundFile(io.BytesIO(self._bytes(archive, member, 2 * limit))) as file:
                if (file.samplerate, file.channels) != (wanted, 1) or told.rate_hz != wanted:
                    self._refuse(f"{member} must be mono at {wanted} Hz")
                if file.frames > limit:
                    self._refuse(f"{member} lasts longer than {_MAX_SOUND_S} s")
                pcm: Pcm = file.read(dtype="int16")
        except soundfile.LibsndfileError as error:
            self._refuse(f"{member} is no sound that can be read ({error})")
        if len(pcm) != told.samples:
            self._refuse(f"{member} is not as long as turn.json says")
        return pcm

    def _json(self, archive: zipfile.ZipFile, name: str) -> Any:
        return self._parsed(self._text(archive, name), name)

    def _text(self, archive: zipfile.ZipFile, name: str) -> str:
        try:
            return self._bytes(archive, name, _MAX_TEXT).decode()
        except UnicodeDecodeError:
            self._refuse(f"{name} is no text")

    def _bytes(self, archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
        """Read no further than the limit, whatever the file says of itself."""
        with archive.open(name) as member:
            content = member.read(limit + 1)
        if len(content) > limit:
            self._refuse(f"{name} unpacks to more than {limit // _MIB} MiB")
        return content

    def _parsed(self, text: str, name: str) -> Any:
        try:
            return json.loads(text, parse_constant=self._not_finite)
        except (ValueError, RecursionError) as error:
            self._refuse(f"{name} is not valid JSON ({error})")

    def _not_finite(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is no number")

    def _checked(self, adapter: TypeAdapter[Any], value: Any, name: str) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            self._refuse(f"{name}: {where[:80]}: {first['msg'][:1].lower()}{first['msg'][1:]}")

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidRequest(f"{self._path} is not a saved turn: {why}.")
