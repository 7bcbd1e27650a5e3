"""Which settings a replay runs under: this machine's models, and the saved turn's manner of conversing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from app.config import Settings
from app.errors import InvalidRequest
from app.replay.bundle import Bundle

_MANNERS: Mapping[str, frozenset[str] | None] = {
    "assistant": None,
    "vad": None,
    "turn": frozenset({"model"}),
    "audio": frozenset({"input_device", "output_device", "push_to_talk", "wake_word"}),
}
"""Sections that are taken over, less the keys named."""
_STAGES = ("llm", "asr", "tts")
_LARGEST = 1e9
_TIMES = frozenset(
    {
        "max_tokens",
        "context_tokens",
        "summarise_at",
        "summary_timeout_s",
        "first_token_timeout_s",
        "stall_timeout_s",
        "partial_ms",
        "timeout_s",
        "speed",
    }
)
"""Of a stage, what the conversation goes by; the rest is the stage's own."""


def settings_for(
    bundle: Bundle, own: Settings, *, recorded: bool, own_config: bool, given: Collection[str] = ()
) -> Settings:
    """``own`` with what the saved turn brings; keys that were ``given`` for this run ("turn.max_wait_ms") stay.

    Raises InvalidRequest if its settings cannot be.
    """
    tree = own.model_dump()
    if recorded or not own_config:
        for section, left_out in _MANNERS.items():
            but = {*(left_out or ()), *_keys(given, section)}
            _take_over(tree[section], _section(bundle, section), lambda key, but=but: key not in but)
    if recorded:
        for section in _STAGES:
            wanted = _TIMES - _keys(given, section)
            _take_over(tree[section], _section(bundle, section), lambda key, wanted=wanted: key in wanted)
    if not _was_greeting(bundle):
        tree["assistant"]["greeting"] = ""
    # The client of the saved turn was allowed what it did.
    tree["server"] |= {"client_instructions": True, "recording": True}
    try:
        used = Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(
            f"The saved turn's settings cannot be used: {where}: {first['msg']} (config.json in it)."
        ) from None
    for section in _MANNERS:
        for key, value in getattr(used, section):
            if isinstance(value, int | float) and not abs(value) <= _LARGEST:  # not every setting has its own limit
                raise InvalidRequest(
                    f"The saved turn's settings cannot be used: {section}.{key} is {value:.3g} (config.json in it)."
                )
    return used


def models_that_differ(bundle: Bundle, own: Settings) -> list[str]:
    """One line for each stage that is another one here."""
    lines = []
    for section in _STAGES:
        then, now = _section(bundle, section), own.model_dump(mode="json")[section]
        was, runs = (f"{of.get('backend')} {of.get('model') or ''}".strip() for of in (then, now))
        if then and was.rpartition("/")[2] != runs.rpartition("/")[2]:
            lines.append(f"{section}: {runs} here, {was} then")
    return lines


def _keys(given: Collection[str], section: str) -> set[str]:
    return {key.removeprefix(f"{section}.") for key in given if key.startswith(f"{section}.")}


def _take_over(target: dict[str, Any], values: Mapping[str, Any], wanted: Any) -> None:
    """Keys that there are here; another version's own are passed by."""
    target.update({key: value for key, value in values.items() if key in target and wanted(key)})


def _section(bundle: Bundle, name: str) -> Mapping[str, Any]:
    section = bundle.settings.get(name, {})
    if not isinstance(section, dict):
        raise InvalidRequest(f"The saved turn's config.json is wrong: {name} is no section.")
    return section


def _was_greeting(bundle: Bundle) -> bool:
    """Nobody had said or written anything: what was spoken is what opens a call."""
    heard = any(call.stage in ("asr", "llm") for call in bundle.calls)
    wrote = any(event.side == "client" for event in bundle.events)
    return not (bundle.facts.history or heard or wrote)
