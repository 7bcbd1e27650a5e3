"""Sound: frames, rates, voice activity, the end of a turn, and the queue to the ear."""

from app.audio.framer import Framer
from app.audio.frames import FRAME_MS, INPUT_FRAME, INPUT_RATE_HZ, OUTPUT_FRAME, OUTPUT_RATE_HZ, Pcm
from app.audio.playout import Playout
from app.audio.resample import Resampler, downmix, resample
from app.audio.turn import SmartTurn, TurnDetector
from app.audio.utterance import UtteranceRecorder
from app.audio.vad import SileroModel, SpeechStarted, SpeechStopped, VadEvent, VoiceActivity, load_vad
from app.audio.wav import read_wav, wav_bytes, write_wav

__all__ = [
    "FRAME_MS",
    "INPUT_FRAME",
    "INPUT_RATE_HZ",
    "OUTPUT_FRAME",
    "OUTPUT_RATE_HZ",
    "Framer",
    "Pcm",
    "Playout",
    "Resampler",
    "SileroModel",
    "SmartTurn",
    "SpeechStarted",
    "SpeechStopped",
    "TurnDetector",
    "UtteranceRecorder",
    "VadEvent",
    "VoiceActivity",
    "downmix",
    "load_vad",
    "read_wav",
    "resample",
    "wav_bytes",
    "write_wav",
]
