"""Reads config.toml, the environment and flags into one checked tree."""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.config.settings import Contradiction, Settings
from app.errors import ConfigError

DEFAULT_PATH = Path("config.toml")
ENV_PREFIX = "PARLEY_"
_ENV_OTHERS = frozenset({"PARLEY_CONFIG"})
_FORMS = """write one like en,de or like '["en", "de"]' (quoted as a whole, or the shell takes its quotes away)."""
_SECTION = re.compile(r"^\s*\[\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"^\s*([\w-]+)\s*=")


def load_settings(
    path: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from defaults, then the file, then ``PARLEY_SECTION__KEY`` variables, then ``overrides``.

    ``path`` None means config.toml in the working folder if there is one. ``overrides`` maps dotted keys
    ("llm.model") to values; strings are read as their type wants, lists as ``en,de`` or ``["en", "de"]``. Raises ConfigError that names the
    file and line (or the variable, or the flag) of each thing wrong, in their order.
    """
    environment = os.environ if environment is None else environment
    path = path or _default_path(environment)
    text = _read(path) if path is not None else ""
    tree = _parse(text, path)
    origin: dict[str, str] = {key: f"{path}, line {_line_of(text, key)}" for key in _dotted(tree)}
    for variable, key, value in _from_environment(environment):
        _put(tree, key, value, variable)
        origin[key] = f"environment variable {variable}"
    for key, value in (overrides or {}).items():
        _put(tree, key, value, f"--set {key}")
        origin[key] = f"flag for {key}"
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_explain(error, origin)) from None
    return _with_absolute_paths(settings, _base(path))


def settings_folder(path: Path | None = None) -> Path:
    """Where relative paths of the settings start, for the ``path`` that ``load_settings`` was given."""
    return _base(path or _default_path(os.environ))


def _default_path(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get("PARLEY_CONFIG"):
        return Path(named)
    return DEFAULT_PATH if DEFAULT_PATH.exists() else None


def _base(path: Path | None) -> Path:
    return path.resolve().parent if path is not None else Path(__file__).resolve().parents[2]


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; give the right file with --config.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(text: str, path: Path | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(variable, dotted key, value) for every variable of ours."""
    for variable, value in sorted(environment.items()):
        if variable.startswith(ENV_PREFIX) and variable not in _ENV_OTHERS:
            yield variable, variable.removeprefix(ENV_PREFIX).lower().replace("__", "."), value


def _put(tree: dict[str, Any], key: str, value: Any, origin: str) -> None:
    section, _, name = key.partition(".")
    if not name or "." in name:
        raise ConfigError(f"{origin}: {key!r} must name a section and a key, like llm.model.{_nearest(key)}")
    if isinstance(value, str) and _is_list(section, name):
        value = _list(value, key, origin)
    target = tree.setdefault(section, {})
    if not isinstance(target, dict):
        raise ConfigError(f"{origin}: {section!r} is a single value in the file, not a section.")
    target[name] = value


def _is_list(section: str, name: str) -> bool:
    model = Settings.model_fields.get(section)
    field = _fields(model.annotation).get(name) if model is not None else None
    return field is not None and str(field.annotation).startswith("tuple")


def _list(text: str, key: str, origin: str) -> list[Any]:
    """A list where there is only a string to write it in: ``en,de``, or as in TOML and JSON. Raises ConfigError."""
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, ValueError):
        value = None
    if not isinstance(value, list):
        raise ConfigError(f"{origin}: {key} = {text!r} is no list; {_FORMS}")
    return value


def _fields(model: Any) -> dict[str, Any]:
    return dict(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else {}


def known_keys() -> list[str]:
    """Every dotted key there is."""
    return [
        f"{section}.{name}" for section, field in Settings.model_fields.items() for name in _fields(field.annotation)
    ]


def _dotted(tree: Mapping[str, Any]) -> Iterator[str]:
    for section, values in tree.items():
        if isinstance(values, dict):
            yield from (f"{section}.{name}" for name in values)
        yield section


def _line_of(text: str, key: str) -> int:
    """The line on which ``key`` is set, as far as a look at the text can tell."""
    section, _, name = key.partition(".")
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _SECTION.match(line):
            current = header[1]
            if current == section and not name:
                return number
        elif (match := _KEY.match(line)) and (current, match[1]) in ((section, name), ("", section)):
            return number
    return 1


def _explain(error: ValidationError, origin: Mapping[str, str]) -> str:
    """A line for each thing wrong, in the order in which they were written."""
    places = {key: place for place, key in enumerate(origin)}

    def place(fault: ErrorDetails) -> int:
        keys = (_key_of(fault), str(fault["loc"][0]))
        return next((places[key] for key in keys if key in places), len(places))

    faults = sorted(error.errors(include_url=False), key=place)
    return "\n".join(dict.fromkeys(_fault(fault, origin) for fault in faults))


def _key_of(fault: ErrorDetails) -> str:
    return ".".join(str(part) for part in fault["loc"][:2])


def _fault(fault: ErrorDetails, origin: Mapping[str, str]) -> str:
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, Contradiction):
        return _contradiction(cause, str(fault["loc"][0]), fault["input"], origin)
    key = _key_of(fault)
    where = origin.get(key) or origin.get(str(fault["loc"][0]), "settings")
    if fault["type"] == "extra_forbidden":
        kind = "key" if "." in key else "section"
        return f"{where}: unknown {kind} {key!r}.{_nearest(key)}"
    if fault["type"] == "tuple_type":
        return f"{where}: {key} = {fault['input']!r} is wrong: a list is wanted, like {_as_list(fault['input'])}."
    wanted = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {key} = {fault['input']!r} is wrong: {wanted[:1].lower()}{wanted[1:]}."


def _contradiction(found: Contradiction, section: str, given: Mapping[str, Any], origin: Mapping[str, str]) -> str:
    """Both keys with their values, as they were given or as they are by default, and where each was set."""
    defaults = _fields(Settings.model_fields[section].annotation)
    low, high = (f"{section}.{name} = {given.get(name, defaults[name].default)}" for name in found.keys)
    places = dict.fromkeys(origin[key] for name in found.keys if (key := f"{section}.{name}") in origin)
    return f"{' and '.join(places)}: {low} must be {found.relation} {high}."


def _as_list(value: Any) -> str:
    """What was given for a list, as TOML writes one."""
    parts = [part.strip() for part in str(value).split(",")]
    return json.dumps(parts, ensure_ascii=False)


def _nearest(key: str) -> str:
    """A suggestion to close an error message with."""
    keys = known_keys()
    near = difflib.get_close_matches(key, [*keys, *Settings.model_fields], n=1, cutoff=0.6)
    if not near:  # the right key in the wrong section
        name = key.rpartition(".")[2]
        near = [known for known in keys if known.endswith(f".{name}")][:1]
    return f" Did you mean {near[0]!r}?" if near else " `python -m app config` shows all keys."


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    """A relative path is meant from config.toml, wherever the command is run from."""
    store = base / settings.runtime.model_store.expanduser()
    pem = {
        key: str(base / Path(value).expanduser())
        for key in ("certificate", "private_key")
        if (value := getattr(settings.server, key))
    }
    return settings.model_copy(
        update={
            "runtime": settings.runtime.model_copy(update={"model_store": store}),
            "server": settings.server.model_copy(update=pem),
        }
    )
