"""Addresses of pages, people and files, read the way people say them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.tts.speakable import acronyms
from app.tts.speakable.tracked import Tracked


@dataclass(frozen=True, slots=True)
class Wording:
    """The signs of an address in one language, each with its spaces."""

    dot: str
    slash: str
    dash: str
    underscore: str
    plus: str
    at: str
    port: str


ENGLISH = Wording(" dot ", " slash ", " dash ", " underscore ", " plus ", " at ", " port ")
CHINESE = Wording("点", "斜杠", "横杠", "下划线", "加", " 艾特 ", "端口")

_TOP_LEVEL = (
    "com|org|net|edu|gov|mil|int|info|biz|io|ai|dev|app|me|tv|co|uk|de|fr|es|it|nl|eu|us|ca|au|jp|cn|in|br|ch|se|ru"
)
_URL = re.compile(
    r"(?:(?<![A-Za-z0-9_])|(?<=_))(?:https?|ftp|wss?)://([^\s/?#<>\"，。！？、]+)([^\s<>\"，。！？、]*)", re.I
)
_BARE_HOST = re.compile(
    rf"(?<![A-Za-z0-9_@./-])((?:www\.)?(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:{_TOP_LEVEL}))(?![A-Za-z0-9_@-])((?:/[^\s<>\"，。！？、]*)?)",
    re.I,
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9_.+-])(?:mailto:)?([A-Za-z0-9_.+-]+)@((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})(?![A-Za-z0-9_])"
)
_HANDLE = re.compile(r"(?<![\w.])@(?=\w)")
_HANDLE_NAME = re.compile(r"(?<=@)[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
_EXTENSIONS = (
    "py|js|ts|jsx|tsx|md|txt|toml|json|yaml|yml|csv|tsv|pdf|html|htm|css|sh|rs|go|cpp|hpp|java|png|jpg|jpeg|gif|svg|webp|zip"
    "|gz|tar|wav|mp3|mp4|mov|flac|ogg|doc|docx|xls|xlsx|ppt|pptx|exe|dll|so|ini|cfg|conf|log|xml|sql|ipynb|onnx|gguf|bat|env|lock"
)
_FILE = re.compile(rf"(?<![\w./\\~])([\w-]+(?:\.[\w-]+)*)\.({_EXTENSIONS})(?![\w/])")
_PATTERN_FILE = re.compile(rf"(?<![\w.])\*\.({_EXTENSIONS})\b")
_DOT_FILE = re.compile(r"(?<![\w./)])\.([a-z]{2,}[\w-]*(?:\.[a-z]+)?)(?![\w/])")
_UNIX_PATH = re.compile(
    r"(?<![\w./<:])(~|\.{1,2})?((?:/[\w.@+-]+){2,}|(?<=~)(?:/[\w.@+-]+)+|(?<=\.)(?:/[\w.@+-]+)+|/(?:usr|etc|var|home|tmp|opt|bin|dev|root|lib|proc))/?(?![\w/])"
)
_RELATIVE_PATH = re.compile(rf"(?<![\w./<:])([A-Za-z_][\w.-]*(?:/[\w.-]+)+\.(?:{_EXTENSIONS}))(?!\w)")
_WINDOWS_PATH = re.compile(r"(?<!\w)([A-Za-z]):\\((?:[\w .-]*[\w.-]\\)*[\w.-]*[\w-])\\?")
_SPELLED_EXTENSION = re.compile(
    "js|ts|md|csv|tsv|pdf|html?|css|sh|rs|cpp|hpp|png|jpg|svg|gz|mp[34]|docx|xlsx?|pptx?|dll|xml|sql"
)
_SAID_EXTENSIONS = {"json": "Jason", "yaml": "yammel", "yml": "yammel", "jpeg": "jay peg"}
_IP = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?)(?!\w|\.\d)")
_TRAILING = re.compile(r"[.,;:!?)\]}'*_`]+$")
_LONGEST_PATH = 30
"""Characters of a page's path that are worth saying; of a longer one only the host is named."""


def _host(host: str, words: Wording) -> str:
    name = host.split("@")[-1].lower()
    name, _, port = name.partition(":")
    spoken = name.removeprefix("www.").replace("-", words.dash).replace(".", words.dot)
    return f"{spoken}{words.port}{port}" if port.isdigit() else spoken


def _address(host: str, rest: str, words: Wording) -> str:
    tail = _TRAILING.search(host + rest)
    end = tail.group() if tail else ""
    if end:
        joined = (host + rest)[: -len(end)]
        host, rest = joined[: len(host)], joined[len(host) :]
    path = re.split(r"[?#]", rest, maxsplit=1)[0].strip("/")
    if path and len(path) <= _LONGEST_PATH and re.fullmatch(r"[\w./-]+", path):
        spoken = re.sub(r"[-_]", " ", path).replace("/", words.slash).replace(".", words.dot)
        return f"{_host(host, words)}{words.slash}{spoken}{end}"
    return f"{_host(host, words)}{end}"


def _email(match: re.Match[str], words: Wording) -> str:
    name = match.group(1)
    for char, word in ((".", words.dot), ("+", words.plus), ("-", words.dash), ("_", words.underscore)):
        name = name.replace(char, word)
    return f"{name}{words.at}{_host(match.group(2), words)}"


def _name(name: str, words: Wording) -> str:
    """ "app/main_test.py" -> "app slash main test dot py"."""
    stem, dot, extension = name.rpartition(".")
    if not dot:
        stem, extension = extension, ""
    elif extension in _SAID_EXTENSIONS:
        extension = _SAID_EXTENSIONS[extension]
    elif _SPELLED_EXTENSION.fullmatch(extension):
        extension = re.sub(r"[a-z]+", lambda letters: acronyms.spell(letters.group()), extension)
    whole = f"{stem}{dot}{{}}" if dot else stem
    spoken = re.sub(r"[_-]+", " ", whole).replace("/", words.slash).replace(".", words.dot)
    return spoken.replace("{}", extension).strip()


def _unix_path(match: re.Match[str], words: Wording) -> str:
    root = {"~": "home ", ".": "", "..": words.dot.strip() + words.dot.rstrip()}.get(match.group(1) or "", "")
    path = match.group(2)
    end = "." if path.endswith(".") else ""
    return (
        f"{root}{_name(path.rstrip('.'), words) if match.group(1) != '.' else _name(path.rstrip('.')[1:], words)}{end}"
    )


def _windows_path(match: re.Match[str]) -> str:
    return f"{match.group(1)} drive, " + _name(match.group(2).replace("\\", "/"), ENGLISH)


def say_addresses(text: Tracked, words: Wording) -> Tracked:
    """ "see https://www.example.com/docs." -> "see example dot com slash docs."; "main.py" -> "main dot py"."""
    text = text.sub(_EMAIL, lambda match: _email(match, words))
    text = text.sub(_URL, lambda match: _address(match.group(1), match.group(2), words))
    text = text.sub(_BARE_HOST, lambda match: _address(match.group(1), match.group(2), words))
    text = text.sub(_IP, lambda match: _host(match.group(1), words))
    text = text.sub(_UNIX_PATH, lambda match: _unix_path(match, words))
    text = text.sub(_RELATIVE_PATH, lambda match: _name(match.group(1), words))
    text = text.sub(_PATTERN_FILE, lambda m: f"{words.dot.strip()} {_name('.' + m.group(1), words).split()[-1]} files")
    text = text.sub(_FILE, lambda match: _name(match.group(), words))
    text = text.sub(_DOT_FILE, lambda match: f"{words.dot.strip()} {match.group(1)}")
    text = text.sub(_HANDLE_NAME, lambda match: match.group().replace("_", " "))
    return text.sub(_HANDLE, words.at.lstrip())


def say_windows_paths(text: Tracked) -> Tracked:
    """ "C:\\Users\\me" -> "C drive, Users slash me"; before its backslashes are taken for Markdown or LaTeX."""
    return text.sub(_WINDOWS_PATH, _windows_path)
