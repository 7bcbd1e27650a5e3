"""Addresses of pages, people and files, read the way people say them."""

from __future__ import annotations

import re

from app.tts.speakable.tracked import Tracked

_TOP_LEVEL = (
    "com|org|net|edu|gov|mil|int|info|biz|io|ai|dev|app|me|tv|co|uk|de|fr|es|it|nl|eu|us|ca|au|jp|cn|in|br|ch|se|ru"
)
_URL = re.compile(r"\b(?:https?|ftp|wss?)://([^\s/?#<>\"]+)([^\s<>\"]*)", re.I)
_BARE_HOST = re.compile(
    rf"(?<![\w@./-])((?:www\.)?(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:{_TOP_LEVEL}))(?![\w@-])((?:/[^\s<>\"]*)?)", re.I
)
_EMAIL = re.compile(r"(?<![\w.+-])(?:mailto:)?([\w.+-]+)@((?:[\w-]+\.)+[A-Za-z]{2,})\b")
_HANDLE = re.compile(r"(?<!\w)@(?=\w)")
_FILE = re.compile(
    r"(?<![\w.])([\w-]+)\.(py|js|ts|md|txt|toml|json|yaml|yml|csv|pdf|html|css|sh|rs|go|cpp|java|png|jpg|jpeg|zip|wav|mp3)\b"
)
_TRAILING = re.compile(r"[.,;:!?)\]}'*_`]+$")
_LONGEST_PATH = 30
"""Characters of a path that are worth saying; of a longer one only the host is named."""


def _host(host: str) -> str:
    name = host.split("@")[-1].lower()
    name, _, port = name.partition(":")
    spoken = name.removeprefix("www.").replace("-", " dash ").replace(".", " dot ")
    return f"{spoken} port {port}" if port.isdigit() else spoken


def _address(host: str, rest: str) -> str:
    tail = _TRAILING.search(host + rest)
    end = tail.group() if tail else ""
    if end:
        joined = (host + rest)[: -len(end)]
        host, rest = joined[: len(host)], joined[len(host) :]
    path = re.split(r"[?#]", rest, maxsplit=1)[0].strip("/")
    if path and len(path) <= _LONGEST_PATH and re.fullmatch(r"[\w./-]+", path):
        words = re.sub(r"[-_]", " ", path).replace("/", " slash ").replace(".", " dot ")
        return f"{_host(host)} slash {words}{end}"
    return f"{_host(host)}{end}"


def _email(match: re.Match[str]) -> str:
    name = match.group(1)
    for char, word in ((".", " dot "), ("+", " plus "), ("-", " dash "), ("_", " underscore ")):
        name = name.replace(char, word)
    return f"{name} at {_host(match.group(2))}"


def say_addresses(text: Tracked) -> Tracked:
    """ "see https://www.example.com/docs." -> "see example dot com slash docs."."""
    text = text.sub(_EMAIL, _email)
    text = text.sub(_URL, lambda match: _address(match.group(1), match.group(2)))
    text = text.sub(_BARE_HOST, lambda match: _address(match.group(1), match.group(2)))
    text = text.sub(_FILE, lambda match: f"{match.group(1).replace('_', ' ')} dot {match.group(2)}")
    return text.sub(_HANDLE, "at ")
