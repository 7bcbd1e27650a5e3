"""The settings tree: every key, its type, its default and its unit, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

DEFAULT_SYSTEM_PROMPT = (
    "You are a helpful AI assistant named Parley, talking aloud. Answer in one or two short sentences, without lists."
)


class Section(BaseModel):
    """Base of every section: unknown keys are errors, values cannot change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def never_or_from(least: int) -> AfterValidator:
    """A number that is 0, or not so small that it makes no sense."""

    def check(value: int) -> int:
        if 0 < value < least:
            raise ValueError(f"0 (never) or at least {least} is wanted")
        return value

    return AfterValidator(check)


class Contradiction(ValueError):
    """Two values that exclude each other; ``keys`` without their section, ``relation`` what must hold between them."""

    def __init__(self, keys: tuple[str, str], relation: str) -> None:
        super().__init__(f"{keys[0]} must be {relation} {keys[1]}")
        self.keys = keys
        self.relation = relation


class AssistantSettings(Section):
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
    language: str = "en"
    """ISO 639-1 code, or "auto" to let the recogniser choose among ``asr.languages``."""
    greeting: str = ""
    """Spoken when a session opens; empty for none."""
    away_prompt_s: float = Field(30.0, ge=0.0)
    """A user who says nothing for this long is asked once whether they are still there; 0 never asks."""
    filler_after_s: float = Field(2.5, ge=0.0)
    """An answer without sound by then is announced by a short "One moment."; 0 never."""
    hang_up_on_goodbye: bool = True
    """End the call once a goodbye has been answered."""
    farewell: str = "Goodbye!"
    """The answer to a goodbye; empty to let the model find one."""


class LlmSettings(Section):
    backend: Literal["local", "openai"] = "local"
    model: str = "smollm2-135m-instruct"
    """Catalogue name, Hugging Face id, folder, or .gguf file; for "openai" the server's model name."""
    base_url: str = ""
    """Of an OpenAI-compatible server, with its /v1; only for backend "openai"."""
    api_key: str = ""
    device: str = "auto"
    """"auto", "cpu" or "cuda"."""
    quantization: Literal["none", "bf16", "int8"] = "bf16"
    """Of the weights: "none" computes in float32; "int8" halves their memory and changes replies a little."""
    runner: Literal["auto", "native", "lean", "packed", "single"] = "auto"
    """How the model is run (docs/models.md); "auto" takes the fastest that is right for it."""
    kv_cache_mb: int = Field(256, ge=8)
    """Memory (MiB) for the KV blocks that all sessions share."""
    context_tokens: int = Field(4096, ge=128)
    """Longest conversation, capped by the model's own limit."""
    max_tokens: int = Field(160, ge=1)
    """Longest reply, tokens."""
    summarise_at: float = Field(0.75, ge=0.2, le=1.0)
    """Share of the room for prompts (``context_tokens`` less ``max_tokens``) at which a conversation's oldest turns
    are summarised; about half as much is kept word for word."""
    summary_timeout_s: float = Field(60.0, gt=0)
    """A summary that is not written by then is given up; it waits for all other replies."""
    temperature: float = Field(0.0, ge=0.0, le=2.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    top_k: int = Field(0, ge=0)
    repetition_penalty: float = Field(1.1, ge=1.0, le=2.0)
    """Divides the logits of tokens seen before (CTRL paper, section 4.1); 1.0 is off."""
    max_running: int = Field(64, ge=1)
    """Replies decoded at once; others wait."""
    max_waiting: int = Field(256, ge=1)
    """Replies that may wait; more are refused with "overloaded"."""
    session_ttl_s: float = Field(600.0, ge=0.0)
    """How long the KV blocks of a session that says nothing are kept from others, as long as there is room."""
    first_token_timeout_s: float = Field(15.0, gt=0)
    stall_timeout_s: float = Field(3.0, gt=0)
    """Longest pause between two pieces of a reply before it counts as failed."""
    retries: int = Field(2, ge=0)
    """Of a request to an OpenAI-compatible server that failed before its first token."""


class AsrSettings(Section):
    backend: Literal["faster-whisper", "openai"] = "faster-whisper"
    model: str = "whisper-base"
    base_url: str = ""
    api_key: str = ""
    device: str = "auto"
    compute_type: str = "int8"
    """CTranslate2 compute type: "int8", "float16" (CUDA), "float32"..."""
    languages: tuple[str, ...] = ("en",)
    """Allowed when ``assistant.language`` is "auto"."""
    beam_size: int = Field(1, ge=1, le=10)
    timeout_s: float = Field(10.0, gt=0)
    max_batch: int = Field(8, ge=1)
    """Utterances that wait together are recognised together, up to this many."""
    max_waiting: int = Field(64, ge=1)
    partial_ms: Annotated[int, never_or_from(200)] = Field(700, ge=0)
    """While the user speaks their words so far are recognised this often, as far as the machine is idle; 0 never."""


class TtsSettings(Section):
    backend: Literal["hibari", "coqui", "piper", "openai"] = "hibari"
    model: str = ""
    """hibari: unused. coqui: a Coqui model name, or a folder with config.json and a checkpoint.
    piper: catalogue name, or an .onnx file with its .json beside it. openai: the server's model name."""
    voice: str = ""
    """Empty for the backend's default voice."""
    speed: float = Field(1.0, ge=0.5, le=2.0)
    base_url: str = ""
    api_key: str = ""
    device: str = "auto"
    timeout_s: float = Field(5.0, gt=0)
    """Longest wait for the first sound of a clause."""
    max_waiting: int = Field(128, ge=1)


class VadSettings(Section):
    threshold: float = Field(0.5, gt=0.0, lt=1.0)
    """Silero speech probability above which a frame is speech."""
    release_threshold: float = Field(0.35, gt=0.0, lt=1.0)
    """...and below which it is silence again."""
    aggressiveness: int = Field(1, ge=0, le=3)
    """webrtcvad gate in front of Silero, 0 lets most through."""
    likely_ms: int = Field(32, ge=20)
    """What may be speech for this long turns the assistant down already; it is no utterance yet."""
    min_speech_ms: int = Field(80, ge=20)
    """Speech shorter than this does not start an utterance."""
    silence_ms: int = Field(128, ge=40)
    """Silence after which speech has stopped; recognition begins here."""
    pre_roll_ms: int = Field(400, ge=300)
    """Sound kept from before speech was noticed."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.release_threshold >= self.threshold:
            raise Contradiction(("release_threshold", "threshold"), "below")
        if self.likely_ms > self.min_speech_ms:
            raise Contradiction(("likely_ms", "min_speech_ms"), "at most")
        return self


class TurnSettings(Section):
    backend: Literal["smart-turn", "silence"] = "smart-turn"
    model: str = "smart-turn-v3"
    threshold: float = Field(0.5, gt=0.0, lt=1.0)
    """Probability above which the turn model's "complete" is believed."""
    silence_ms: int = Field(700, ge=100)
    """Fixed silence that ends a turn with backend "silence"."""
    max_wait_ms: int = Field(2000, ge=200)
    """Longest silence that an "incomplete" verdict can hold a turn open."""
    unfinished_ms: int = Field(1200, ge=100)
    """Silence that ends a turn whose words sound as if more were to come ("and the"), though the verdict is "complete"."""
    look_ms: int = Field(200, ge=40)
    """Silence after which the turn model is asked; it wants some at the end of what it hears."""
    early_replies: bool = True
    """Let a reply be written (not heard) as soon as the words are known, before the turn is declared over."""
    barge_in_ms: int = Field(250, ge=50)
    """Speech over the assistant longer than this silences it until its words decide what it was."""
    barge_in_max_ms: int = Field(1200, ge=200)
    """Speech over the assistant that has lasted this long interrupts it, if its words are not known by then."""
    max_utterance_s: float = Field(120.0, gt=1)
    """A turn is closed after this much speech even if it never pauses."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.look_ms > self.max_wait_ms:
            raise Contradiction(("look_ms", "max_wait_ms"), "at most")
        if self.barge_in_ms >= self.barge_in_max_ms:
            raise Contradiction(("barge_in_ms", "barge_in_max_ms"), "below")
        return self


class AudioSettings(Section):
    input_device: str = ""
    """Part of a name, or an index; empty for the default."""
    output_device: str = ""
    echo_cancellation: bool = True
    duck_db: float = Field(18.0, ge=0.0, le=60.0)
    """How much quieter the assistant gets while the user speaks over it, until it is decided what it was."""
    echo_guard: bool = True
    """Take the assistant's own voice out of what comes from the user, whose device may not do so."""
    push_to_talk: bool = False
    """Local microphone: listen only while the space bar has opened it."""
    wake_word: str = ""
    """Local microphone: listen only after this word; one of those that ``--wake-word help`` lists."""
    wake_silence_s: float = Field(15.0, ge=2.0)
    """With a wake word: the microphone sleeps again once nobody has spoken for this long."""
    output_buffer_s: float = Field(30.0, gt=0.5)
    """How far ahead of the listener a reply may be synthesised."""


class ServerSettings(Section):
    host: str = ""
    """Address to listen on; empty for 127.0.0.1, and for every address with ``https``, which is for other machines."""
    port: int = Field(8080, ge=0, le=65535)
    token: str = ""
    """Wanted from every client when ``address`` is not loopback; made and printed if empty."""
    api_keys: tuple[str, ...] = ()
    """Further keys, for /v1 only. Each is a tenant of its own: no session or cached prefix is shared between keys."""
    allowed_origins: tuple[str, ...] = ()
    """Further origins (scheme://host:port) whose pages may open sessions."""
    max_sessions: int = Field(32, ge=1)
    ice_servers: tuple[str, ...] = ()
    """"stun:host:port" or "turn:user:password@host:port", given to both ends; empty needs no internet."""
    connect_timeout_s: float = Field(15.0, gt=0)
    """A call that has no media by then is dropped."""
    idle_timeout_s: float = Field(600.0, gt=0)
    """A call in which nobody spoke for this long is ended."""
    resume_s: float = Field(120.0, ge=0.0)
    """A call whose connection is lost (a refresh, another network) waits this long to be taken up again; 0 never."""
    https: bool = False
    """Serve https, which browsers want for the microphone except on localhost."""
    certificate: str = ""
    """PEM file for ``https``; empty for one that is made by itself, which browsers warn of."""
    private_key: str = ""
    """PEM file of the certificate's key."""
    client_instructions: bool = False
    """Let clients replace ``assistant.system_prompt`` for their own session."""
    recording: bool = False
    """Let the page record a call, if the person there wants it too. The recording stays in their browser."""
    saved_turns_mb: int = Field(32, ge=0)
    """Memory (MiB) for the latest turns' sound and events, so that one can be saved and replayed; 0 keeps none."""

    @property
    def address(self) -> str:
        """Where to listen."""
        return self.host or ("0.0.0.0" if self.https else "127.0.0.1")


class RuntimeSettings(Section):
    llm_threads: int = Field(0, ge=0)
    """CPU threads; 0 chooses from the number of cores."""
    llm_nice: int = Field(5, ge=0, le=19)
    """How far the language model steps back where hearing, speaking and sound want the processor: it is ahead of the
    listener by far, and they are not. Without them (``serve --api-only``) it steps back for nobody."""
    asr_threads: int = Field(0, ge=0)
    tts_threads: int = Field(0, ge=0)
    model_store: Path = Path("models/store")
    """Where fetched models lie; relative to config.toml."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section):
    assistant: AssistantSettings = AssistantSettings()  # type: ignore[call-arg]
    llm: LlmSettings = LlmSettings()  # type: ignore[call-arg]
    asr: AsrSettings = AsrSettings()  # type: ignore[call-arg]
    tts: TtsSettings = TtsSettings()  # type: ignore[call-arg]
    vad: VadSettings = VadSettings()  # type: ignore[call-arg]
    turn: TurnSettings = TurnSettings()  # type: ignore[call-arg]
    audio: AudioSettings = AudioSettings()  # type: ignore[call-arg]
    server: ServerSettings = ServerSettings()  # type: ignore[call-arg]
    runtime: RuntimeSettings = RuntimeSettings()  # type: ignore[call-arg]
